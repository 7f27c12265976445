import { Command } from 'commander'
import { createConfigSchema } from '../config/config-schema.ts'
import { type Io, writeJson, writeStdout } from '../io.ts'
import { jsonOption } from '../options.ts'
import { listOverridden, serveOptions, toServeSettings } from '../serve/serve-options.ts'
import { describeSettings, type InForce, listConfigOptions, makeTargetOptional } from '../settings.ts'
import { describeStore } from '../store.ts'
import { formatTable } from '../terminal/format.ts'

/** `ingest config`. */
export function configCommand(io: Io): Command {
  const command = new Command('config').description('print the settings of serve that are in force, and their sources')
  for (const option of [...serveOptions(), jsonOption()]) command.addOption(option)
  makeTargetOptional(command)
  return command
    .option('--schema', 'print the JSON Schema of the file of settings')
    .addHelpText('after', configHelp)
    .action(async ({ schema, json }: { schema?: true; json?: true }) => {
      if (schema)
        await writeStdout(io, `${JSON.stringify(createConfigSchema(listConfigOptions(command).values()), null, 2)}\n`)
      else await printSettings(io, command, json)
    })
}

const configHelp = `
Takes the options of serve and checks their form; it opens no store and no file of TLS. A setting comes from the command line, else from its variable,
else from the file of settings, else from its default. Passwords and INGEST_ADMIN_TOKEN are not printed.
Keys of the file are the names of options in camelCase. Values are written as on the command line, numbers and booleans
as such. Every command reads the file; its paths are relative to it.

Examples:
  ingest config
  ingest config --data data/games --port 9000 --json
  ingest config --schema > ingest.config.schema.json
`

async function printSettings(io: Io, command: Command, json: true | undefined): Promise<void> {
  // for its checks
  toServeSettings(command)
  const overridden = listOverridden(command)
  const settings = describeSettings(command, io.env)
    .filter(({ key }) => !overridden.has(key))
    .map(hidePassword)
  settings.push(describeToken(io.env))
  if (json) {
    const members = settings.map(({ key, value, source, from }) => [key, { value, source, from }])
    await writeJson(io, { ok: true, settings: Object.fromEntries(members) })
    return
  }
  const rows = settings.map(({ key, value, from }) => [key, `${value ?? '-'}`, from ?? 'default'])
  await writeStdout(io, `${formatTable([['KEY', 'VALUE', 'FROM'], ...rows]).join('\n')}\n`)
}

function hidePassword(setting: InForce): InForce {
  const { key, value } = setting
  return key === 'store' && typeof value === 'string' ? { ...setting, value: describeStore(value) } : setting
}

function describeToken({ INGEST_ADMIN_TOKEN: token }: Io['env']): InForce {
  const key = 'adminToken'
  if (!token) return { key, value: null, source: 'default', from: null }
  return { key, value: 'set', source: 'environment', from: 'INGEST_ADMIN_TOKEN' }
}
