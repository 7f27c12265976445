import { IngestError, type KeyRecord, type Scope, scopes } from '@ingest/core'
import { type DescribedKey, describeKey, isTimestamp } from '@ingest/core/internal'
import { Command, InvalidArgumentError, Option } from 'commander'
import { requireKnown, withIngest } from '../connect.ts'
import { type Io, type PrintOptions, printMessage, printResult } from '../io.ts'
import { durationMs, jsonOption, parseDuration, projectOption } from '../options.ts'
import { parseStore, storeOption } from '../store.ts'
import { formatTable } from '../terminal/format.ts'

interface KeysOptions extends PrintOptions {
  project: string
}

interface CreateOptions extends KeysOptions {
  name?: string
  scope?: Scope[]
  expires?: number
}

/** The commands work while servers have the store open. */
export function keysCommand(io: Io): Command {
  const keys = new Command('keys')
    .description('create, list, revoke and rotate the ingestion keys of a project')
    .addHelpText('after', examples('ingest keys create --store data/games --project demo'))
  for (const command of [keysCreateCommand(io), keysListCommand(io), keysRevokeCommand(io), keysRotateCommand(io)])
    keys.addCommand(command)
  return keys
}

function keysCreateCommand(io: Io): Command {
  return new Command('create')
    .addOption(storeOption().makeOptionMandatory())
    .description('create a key, and the store and the project if they are new; prints the key, which is not stored')
    .addOption(projectOption())
    .option(
      '--name <text>',
      'who gets the key, as in lists and beside the events that it sent in vain; none by default',
    )
    .addOption(
      new Option('--scope <scopes...>', 'operations that the key allows; all by default')
        .choices(scopes)
        .argParser(parseScopes),
    )
    .option(
      '--expires <when>',
      'expiry: a duration such as 90d or 48h, or an RFC 3339 time; never by default',
      parseExpiry,
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'ingest keys create --store data/games --project demo',
        'ingest keys create --store data/games --project demo --name live-servers --scope events:write --expires 90d',
      ),
    )
    .action(async (options: CreateOptions, command: Command) => {
      const { project, name, scope, expires } = options
      const store = parseStore(command)
      const { key, record } = await withIngest(io, { store, create: true }, ({ keys }) =>
        keys
          .create(project, {
            ...(name !== undefined && { name }),
            ...(scope && { scopes: scope }),
            ...(expires !== undefined && { expiresAt: expires }),
          })
          .catch((error) => explainUnknown(error, project)),
      )
      await printKey(io, options, key, describe(record))
    })
}

function keysListCommand(io: Io): Command {
  return new Command('list')
    .addOption(storeOption().makeOptionMandatory())
    .description('list the keys of a project, oldest first; the keys themselves are not stored')
    .addOption(projectOption())
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys list --store data/games --project demo'))
    .action(async (options: KeysOptions, command: Command) => {
      const { project } = options
      const records = await withIngest(io, { store: parseStore(command) }, async (ingest) => {
        requireKnown(await ingest.hasProject(project), project)
        return ingest.keys.list(project)
      })
      if (records.length === 0) printMessage(io, `the project ${project} has no keys`)
      const keys = records.map(describe)
      await printResult(io, options, { projectId: project, keys }, formatKeyTable(keys))
    })
}

function keysRevokeCommand(io: Io): Command {
  return new Command('revoke')
    .addOption(storeOption().makeOptionMandatory())
    .description('revoke a key immediately and permanently')
    .argument('<keyId>', 'the 8 characters after ik_ in the key')
    .addOption(projectOption())
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys revoke vbxtzdc2 --store data/games --project demo'))
    .action(async (keyId: string, options: KeysOptions, command: Command) => {
      const { project } = options
      const record = await withIngest(io, { store: parseStore(command) }, ({ keys }) => keys.revoke(project, keyId))
      await printResult(io, options, { projectId: project, ...describe(record) }, `revoked ${keyId}`)
    })
}

function keysRotateCommand(io: Io): Command {
  return new Command('rotate')
    .addOption(storeOption().makeOptionMandatory())
    .description(
      'create a key with the same scopes and name, and expire the old key after an overlap; prints the new key',
    )
    .argument('<keyId>', 'the 8 characters after ik_ in the key')
    .addOption(projectOption())
    .addOption(
      new Option('--overlap <duration>', 'time until the old key expires')
        .default(durationMs('48h'), '48h')
        .argParser(parseDuration),
    )
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys rotate vbxtzdc2 --store data/games --project demo --overlap 48h'))
    .action(async (keyId: string, options: KeysOptions & { overlap: number }, command: Command) => {
      const { project, overlap } = options
      const store = parseStore(command)
      const { key, record, old } = await withIngest(io, { store }, ({ keys }) =>
        keys.rotate(project, keyId, { overlapMs: overlap }).catch((error) => explainUnknown(error, project)),
      )
      const rotated = { keyId, expiresAt: describe(old).expiresAt }
      await printKey(io, options, key, { ...describe(record), rotated })
    })
}

/** Explains what to do about a key that may have been created: the key itself is not printed, and nothing stores it. */
function explainUnknown(error: unknown, project: string): never {
  if (!(error instanceof IngestError && error.isOutcomeUnknown)) throw error
  const advice = `A key may have been created, and its text is lost: run the command again, then revoke the unused key that \`ingest keys list --project ${project}\` shows.`
  throw new IngestError(error.code, `${error.message} ${advice}`, { cause: error })
}

function examples(...lines: string[]): string {
  return ['', lines.length > 1 ? 'Examples:' : 'Example:', ...lines.map((line) => `  ${line}`), ''].join('\n')
}

/** Prints a new key alone, so that a script can read it; with `--json`, its record too. */
async function printKey(io: Io, options: KeysOptions, key: string, record: object): Promise<void> {
  await printResult(io, options, { key, projectId: options.project, ...record }, key)
  printMessage(io, 'this key is printed once and not stored: save it for its senders, such as in INGEST_KEY')
}

/** Parses scopes given as several arguments, repeated options, or separated by commas. */
function parseScopes(text: string, earlier: string[] = []): string[] {
  const words = text.split(',')
  const unknown = words.find((word) => !scopes.some((scope) => scope === word))
  if (unknown === undefined) return [...earlier, ...words]
  throw new InvalidArgumentError(`'${unknown}' is not a scope: expected ${scopes.join(', ')}.`)
}

function parseExpiry(text: string): number {
  const at = isTimestamp(text) ? Date.parse(text) : Date.now() + durationMs(text)
  if (Number.isNaN(at)) throw new InvalidArgumentError('Expected a duration such as 90d, or an RFC 3339 time.')
  if (at <= Date.now()) throw new InvalidArgumentError('Expected a time in the future.')
  return at
}

/** The printed members of a key. */
function describe(record: KeyRecord): DescribedKey {
  return describeKey(record, Date.now())
}

function formatKeyTable(keys: readonly DescribedKey[]): string[] {
  const rows = keys.map(({ keyId, name, state, createdAt, expiresAt, lastUsedAt, scopes }) => [
    keyId,
    name ?? '-',
    state,
    createdAt,
    expiresAt ?? 'never',
    lastUsedAt ?? 'never',
    scopes.join(','),
  ])
  return formatTable([['KEY', 'NAME', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'SCOPES'], ...rows])
}
