import { mkdirSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { runSoak } from './run-soak.js'

const help = `pnpm soak   loads and disturbs two built "ingest serve" on one store, and checks that nothing is lost

  --hours <n>      how long the load lasts (default 1); 0.01 is 36 seconds. The checks at the end take longer
  --seed <n>       repeats the decisions of the run that printed it
  --store <store>  an empty or missing directory for the store and all files of the run (default: a temporary one), or
                   postgres://user@host/database, in which projects of the run's own are created

Load: new and repeated batches, invalid events, maps, freezes, erasures, retention, backups, exports, copies and other
commands. Faults: SIGKILL, SIGTERM and SIGSTOP, slowed commands, a full disk, disk images after a power loss, ended
connections of the database. The store is compared with a ledger outside of it of what was sent and acknowledged.

The load ends at the first violation. The exit code is then 1, and the directory of the run has the ledger, the logs,
the store at the violation and the report; otherwise only the report is left. A full disk needs root and loop devices,
slowed commands need strace, power losses Linux and a C compiler: the report names what was skipped.`

const options = /** @type {const} */ ({
  help: { type: 'boolean' },
  hours: { type: 'string', default: '1' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  store: { type: 'string' },
})

process.exit(await main(process.argv.slice(2).filter((arg) => arg !== '--')))

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function main(args) {
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130))
  try {
    const { values } = parseArgs({ args, options })
    if (values.help) {
      console.log(help)
      return 0
    }
    const hours = parseNumber('hours', values.hours)
    const seed = parseNumber('seed', values.seed)
    const databaseUrl = /^postgres(ql)?:/.test(values.store ?? '') ? values.store : undefined
    const directory = createDirectory(databaseUrl === undefined ? values.store : undefined)
    console.error(`seed ${seed}, files in ${directory}`)
    const { ok, text } = await runSoak({ hours, seed, directory, ...(databaseUrl !== undefined && { databaseUrl }) })
    console.log(text)
    return ok ? 0 : 1
  } catch (error) {
    console.error(`no soak: ${error instanceof Error ? error.message : error}`)
    return 2
  }
}

/** @param {string} name @param {string} text */
function parseNumber(name, text) {
  const number = Number(text)
  if (!(number > 0) || !Number.isFinite(number)) throw new Error(`--${name} is a number above 0, not "${text}"`)
  return number
}

/** @param {string | undefined} path */
function createDirectory(path) {
  if (path === undefined) return mkdtempSync(join(tmpdir(), 'ingest-soak-'))
  mkdirSync(path, { recursive: true })
  if (readdirSync(path).length > 0) throw new Error(`the directory ${path} is not empty`)
  return resolve(path)
}
