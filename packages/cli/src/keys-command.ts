import type { KeyRecord, Scope } from '@ingest/core'
import { Command, InvalidArgumentError, Option } from 'commander'
import { formatTable } from './format-table.ts'
import { dataOption, duration, durationMs, projectOption, withIngest } from './options.ts'
import { writeOut } from './write-out.ts'

interface KeysOptions {
  data: string
  project: string
}

/** `ingest keys create | list | revoke | rotate`. They work while servers have the directory open. */
export function keysCommand(): Command {
  const keys = new Command('keys').description('make, list and end the ingestion keys of a project')
  keys.addCommand(createKey())
  keys.addCommand(listKeys())
  keys.addCommand(revokeKey())
  keys.addCommand(rotateKey())
  return keys
}

function createKey(): Command {
  return new Command('create')
    .description(
      'make a key, and the store and the project when they are new; prints the key, which is shown only once',
    )
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(
      new Option('--scope <scopes...>', 'what the key may do; all of them without')
        // for the help and for completion: what is a scope is for the core to say
        .choices(['events:write', 'maps:write', 'read'])
        .argParser(collect),
    )
    .option('--expires <when>', 'when the key ends: a duration such as 90d or 48h, or an RFC 3339 time', parseExpiry)
    .action(async ({ data, project, scope, expires }: KeysOptions & { scope?: Scope[]; expires?: number }) => {
      await withIngest({ data, project, create: true }, async ({ keys }) => {
        const { key } = await keys.create(project, {
          ...(scope && { scopes: scope }),
          ...(expires !== undefined && { expiresAt: expires }),
        })
        await print(key)
      })
    })
}

function listKeys(): Command {
  return new Command('list')
    .description('show the keys of a project, oldest first; the keys themselves are not kept')
    .addOption(dataOption())
    .addOption(projectOption())
    .option('--json', 'one JSON object a line')
    .action(async ({ data, project, json }: KeysOptions & { json?: true }) => {
      await withIngest({ data, project }, async ({ keys }) => {
        const records = await keys.list(project)
        if (records.length === 0) process.stderr.write(`ingest: the project ${project} has no keys here\n`)
        const lines = json ? records.map((record) => JSON.stringify(publicPart(record))) : table(records)
        if (lines.length > 0) await print(lines.join('\n'))
      })
    })
}

function revokeKey(): Command {
  return new Command('revoke')
    .description('end a key at once and for ever')
    .argument('<keyId>', 'the 8 characters after ik_')
    .addOption(dataOption())
    .addOption(projectOption())
    .action(async (keyId: string, { data, project }: KeysOptions) => {
      await withIngest({ data, project }, async ({ keys }) => {
        await keys.revoke(project, keyId)
        await print(`revoked ${keyId}`)
      })
    })
}

function rotateKey(): Command {
  return new Command('rotate')
    .description('make a key with the same scopes, and let the old one end after an overlap; prints the new key')
    .argument('<keyId>', 'the 8 characters after ik_')
    .addOption(dataOption())
    .addOption(projectOption())
    .addOption(
      new Option('--overlap <duration>', 'how long the old key goes on working')
        .default(durationMs('48h'), '48h')
        .argParser(duration),
    )
    .action(async (keyId: string, { data, project, overlap }: KeysOptions & { overlap: number }) => {
      await withIngest({ data, project }, async ({ keys }) => {
        await print((await keys.rotate(project, keyId, { overlapMs: overlap })).key)
      })
    })
}

/** Scopes may come as several arguments, several options, or with commas between them. */
function collect(text: string, earlier: string[] = []): string[] {
  return [...earlier, ...text.split(',')]
}

const timePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/

function parseExpiry(text: string): number {
  const at = timePattern.test(text) ? Date.parse(text) : Date.now() + durationMs(text)
  if (Number.isNaN(at)) throw new InvalidArgumentError('Expected a duration such as 90d, or an RFC 3339 time.')
  if (at <= Date.now()) throw new InvalidArgumentError('Expected a time that is still to come.')
  return at
}

function publicPart({ keyId, scopes, createdAt, expiresAt, revokedAt }: KeyRecord) {
  return { keyId, scopes, state: stateOf({ expiresAt, revokedAt }), createdAt, expiresAt, revokedAt }
}

function stateOf({ expiresAt, revokedAt }: { expiresAt: number | undefined; revokedAt: number | undefined }): string {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt !== undefined && expiresAt <= Date.now() ? 'expired' : 'active'
}

function table(records: readonly KeyRecord[]): string[] {
  const rows = records
    .map(publicPart)
    .map(({ keyId, state, createdAt, expiresAt, scopes }) => [
      keyId,
      state,
      new Date(createdAt).toISOString(),
      expiresAt === undefined ? 'never' : new Date(expiresAt).toISOString(),
      scopes.join(','),
    ])
  return formatTable([['KEY', 'STATE', 'CREATED', 'EXPIRES', 'SCOPES'], ...rows])
}

async function print(text: string): Promise<void> {
  await writeOut(`${text}\n`)
}
