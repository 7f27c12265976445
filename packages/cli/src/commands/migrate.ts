import { Command, Option } from 'commander'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, nonEmpty, wholeNumber } from '../options.ts'
import { checkStoreOption, describeStore, isDatabase, parseStoreName } from '../store.ts'

interface MigrateCommandOptions extends PrintOptions {
  store?: string
  print?: true
  grantTo?: string
  keyPartitions?: number
  newEpoch?: true
}

export function migrateCommand(io: Io): Command {
  const storeOption = new Option('--store <url>', 'database, postgres://owner@host/database; required without --print')
    .env('INGEST_STORE')
    .argParser(parseStoreName)
  return new Command('migrate')
    .description('create or upgrade the schema of a PostgreSQL database, as its owner')
    .addOption(storeOption)
    .addOption(new Option('--print', 'print the SQL, and connect to nothing').conflicts('newEpoch'))
    .option('--grant-to <role>', 'let a role that owns nothing run servers: SELECT and EXECUTE', nonEmpty)
    .option('--key-partitions <n>', 'hash partitions of the table of event ids, for a new schema', wholeNumber(1, 256))
    .option('--new-epoch', 'refuse all cursors from before now: after a backup was restored')
    .addOption(jsonOption())
    .addHelpText('after', migrateHelp)
    .action(async (options: MigrateCommandOptions, command: Command) => {
      const { store, print } = options
      if (print) return printSql(io, options)
      if (store === undefined) command.error('name the database with --store, or print the SQL with --print')
      checkStoreOption(command, 'store')
      if (!isDatabase(store))
        command.error('a directory has no migrations: --store expects postgres://user@host/database')
      await migrate(io, store, options)
    })
}

const migrateHelp = `
Servers of the version before may run during an upgrade. \`ingest serve\` migrates when it starts, unless --no-migrate is
set. Exit code 0: the schema is current, whether or not there was anything to do.

Examples:
  ingest migrate --store postgres://owner@localhost/games --grant-to ingest
  ingest migrate --print
`

function toMigrateOptions({ grantTo, keyPartitions }: MigrateCommandOptions) {
  return { ...(grantTo !== undefined && { grantTo }), ...(keyPartitions !== undefined && { keyPartitions }) }
}

async function printSql(io: Io, options: MigrateCommandOptions): Promise<void> {
  const { printMigrations } = await import('@ingest/postgres')
  const sql = printMigrations(toMigrateOptions(options))
  await printResult(io, options, { sql }, sql.trimEnd())
}

async function migrate(io: Io, store: string, options: MigrateCommandOptions): Promise<void> {
  const { migratePostgres } = await import('@ingest/postgres')
  const { newEpoch = false } = options
  const { from, to } = await migratePostgres(store, { ...toMigrateOptions(options), newEpoch })
  const described = describeStore(store)
  const schema = from === to ? `has version ${to} already` : `was migrated from version ${from} to ${to}`
  const epoch = newEpoch ? '; cursors from before are refused' : ''
  const text = `the schema of ${described} ${schema}${epoch}`
  await printResult(io, options, { store: described, from, to, newEpoch }, text)
}
