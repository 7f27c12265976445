import type { KeyRecord, Scope } from '@ingest/core'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Io } from '../io.ts'
import { printMessage, writeJson, writeStdout } from '../io.ts'
import { dataOption, parseDuration, durationMs, jsonOption, projectOption, withIngest } from '../options.ts'
import { formatTable, toIsoTime } from '../terminal/format.ts'

interface KeysOptions {
  data: string
  project: string
  json?: true
}

/** `ingest keys create | list | revoke | rotate`. They work while servers have the directory open. */
export function keysCommand(io: Io): Command {
  const keys = new Command('keys')
    .description('make, list and end the ingestion keys of a project')
    .addHelpText('after', examples('ingest keys create --data data/games --project demo'))
  for (const command of [keysCreateCommand(io), keysListCommand(io), keysRevokeCommand(io), keysRotateCommand(io)]) keys.addCommand(command)
  return keys
}

/** The scopes of the core, which is not loaded for `--help` and wrong use; a test compares them. */
const scopes = ['events:write', 'maps:write', 'read']

function keysCreateCommand(io: Io): Command {
  return new Command('create')
    .description(
      'make a key, and the store and the project when they are new; prints the key, which is shown only once',
    )
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(
      new Option('--scope <scopes...>', 'what the key may do; everything by default')
        .choices(scopes)
        .argParser(parseScopes),
    )
    .option('--expires <when>', 'when the key ends: a duration such as 90d or 48h, or an RFC 3339 time', parseExpiry)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'ingest keys create --data data/games --project demo',
        'ingest keys create --data data/games --project demo --scope events:write --expires 90d',
      ),
    )
    .action(async ({ data, project, scope, expires, json }: KeysOptions & { scope?: Scope[]; expires?: number }) => {
      const { key, record } = await withIngest(io, { data, project, create: true }, ({ keys }) =>
        keys.create(project, {
          ...(scope && { scopes: scope }),
          ...(expires !== undefined && { expiresAt: expires }),
        }),
      )
      await printKey(io, key, { projectId: project, ...toPublicRecord(record) }, json)
    })
}

function keysListCommand(io: Io): Command {
  return new Command('list')
    .description('show the keys of a project, oldest first; the keys themselves are not kept')
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys list --data data/games --project demo'))
    .action(async ({ data, project, json }: KeysOptions) => {
      const records = await withIngest(io, { data, project }, ({ keys }) => keys.list(project))
      if (records.length === 0) printMessage(io, `the project ${project} has no keys here`)
      if (json) await writeJson(io, { ok: true, projectId: project, keys: records.map(toPublicRecord) })
      else await writeStdout(io, `${formatKeyTable(records).join('\n')}\n`)
    })
}

function keysRevokeCommand(io: Io): Command {
  return new Command('revoke')
    .description('end a key at once and permanently')
    .argument('<keyId>', 'the 8 characters after ik_')
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys revoke vbxtzdc2 --data data/games --project demo'))
    .action(async (keyId: string, { data, project, json }: KeysOptions) => {
      const record = await withIngest(io, { data, project }, ({ keys }) => keys.revoke(project, keyId))
      if (json) await writeJson(io, { ok: true, projectId: project, ...toPublicRecord(record) })
      else await writeStdout(io, `revoked ${keyId}\n`)
    })
}

function keysRotateCommand(io: Io): Command {
  return new Command('rotate')
    .description('make a key with the same scopes, and let the old one end after an overlap; prints the new key')
    .argument('<keyId>', 'the 8 characters after ik_')
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(
      new Option('--overlap <duration>', 'how long the old key goes on working')
        .default(durationMs('48h'), '48h')
        .argParser(parseDuration),
    )
    .addOption(jsonOption())
    .addHelpText('after', examples('ingest keys rotate vbxtzdc2 --data data/games --project demo --overlap 48h'))
    .action(async (keyId: string, { data, project, overlap, json }: KeysOptions & { overlap: number }) => {
      const { key, record, old } = await withIngest(io, { data, project }, async ({ keys }) => {
        const made = await keys.rotate(project, keyId, { overlapMs: overlap })
        return { ...made, old: (await keys.list(project)).find((each) => each.keyId === keyId) }
      })
      const rotated = { keyId, expiresAt: toIsoTime(old?.expiresAt) }
      await printKey(io, key, { projectId: project, ...toPublicRecord(record), rotated }, json)
    })
}

function examples(...lines: string[]): string {
  return ['', lines.length > 1 ? 'Examples:' : 'Example:', ...lines.map((line) => `  ${line}`), ''].join('\n')
}

/** Prints a new key: the key alone, so that a script can take it, and what it is with `--json`. */
async function printKey(io: Io, key: string, what: object, json: boolean | undefined): Promise<void> {
  if (json) await writeJson(io, { ok: true, key, ...what })
  else await writeStdout(io, `${key}\n`)
  printMessage(io, 'this key is shown once and not kept: put it where its senders find it, such as INGEST_KEY')
}

/** Scopes may come as several arguments, several options, or with commas between them. */
function parseScopes(text: string, earlier: string[] = []): string[] {
  const words = text.split(',')
  const strange = words.find((word) => !scopes.includes(word))
  if (strange === undefined) return [...earlier, ...words]
  throw new InvalidArgumentError(`'${strange}' is not one of the scopes ${scopes.join(', ')}.`)
}

const timePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/

function parseExpiry(text: string): number {
  const at = timePattern.test(text) ? Date.parse(text) : Date.now() + durationMs(text)
  if (Number.isNaN(at)) throw new InvalidArgumentError('Expected a duration such as 90d, or an RFC 3339 time.')
  if (at <= Date.now()) throw new InvalidArgumentError('Expected a time that is still to come.')
  return at
}

/** What is printed of a key. */
function toPublicRecord({ keyId, scopes, createdAt, expiresAt, revokedAt }: KeyRecord) {
  return {
    keyId,
    state: keyState({ expiresAt, revokedAt }),
    scopes,
    createdAt: toIsoTime(createdAt),
    expiresAt: toIsoTime(expiresAt),
    revokedAt: toIsoTime(revokedAt),
  }
}

function keyState({ expiresAt, revokedAt }: { expiresAt: number | undefined; revokedAt: number | undefined }): string {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt !== undefined && expiresAt <= Date.now() ? 'expired' : 'active'
}

function formatKeyTable(records: readonly KeyRecord[]): string[] {
  const rows = records
    .map(toPublicRecord)
    .map(({ keyId, state, createdAt, expiresAt, scopes }) => [
      keyId,
      state,
      createdAt,
      expiresAt ?? 'never',
      scopes.join(','),
    ])
  return formatTable([['KEY', 'STATE', 'CREATED', 'EXPIRES', 'SCOPES'], ...rows])
}
