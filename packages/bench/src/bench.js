import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { benchAll } from './bench-all.js'
import { benchPostgres } from './bench-postgres.js'
import { findContenders, findVariants } from './contenders.js'
import { parseCount, parseCounts } from './parse-count.js'
import { isComplete, parts, plans, postgresPlans } from './plan.js'
import { rewriteReports } from './write-report.js'

const benchmarks = fileURLToPath(new URL('../../../docs/benchmarks', import.meta.url))
const readme = fileURLToPath(new URL('../../../README.md', import.meta.url))
const contenderNames = findContenders().map(({ name }) => name)
const postgresNames = [...contenderNames, ...findVariants().map(({ name }) => name)]
const help = `pnpm bench [options]          measures everything, which takes about an hour and 70 GB of disk
pnpm bench --quick            the same in under three minutes, with short runs and small stores
pnpm bench postgres           Ingest on PostgreSQL beside plain inserts, which takes about an hour
pnpm bench report             writes the newest reports again from their figures, and those of the README

  --only <names>      contenders, by commas: ${contenderNames.join(', ')}
  --parts <names>     ${parts.join(', ')}
  --sizes <counts>    events stored before, for growth: 1M,10M
  --rounds <n>        how many times each is measured
  --directory <dir>   where stores are made and removed again; the directory for temporary files without
  --out <dir>         where the report goes; docs/benchmarks without
  --smoke             a few seconds in all, floor and Ingest only, to see that it runs

POSTGRES_URL names a PostgreSQL server to measure, in place of one that is started for it; databases called bench_* are
created and dropped there.`

const options = /** @type {const} */ ({
  help: { type: 'boolean' },
  quick: { type: 'boolean' },
  smoke: { type: 'boolean' },
  only: { type: 'string' },
  parts: { type: 'string' },
  sizes: { type: 'string' },
  rounds: { type: 'string' },
  directory: { type: 'string' },
  out: { type: 'string' },
})

process.exit(await main(process.argv.slice(2)))

/** @param {string[]} given @returns {Promise<number>} the exit code */
async function main(given) {
  // pnpm hands on the `--` that npm needs
  const args = given.filter((arg) => arg !== '--')
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options })
    const [subject, ...others] = positionals
    if (values.help) console.log(help)
    else if (subject === undefined) {
      const plan = planOf(values)
      await inSurroundings(values, args, (surroundings) => benchAll(surroundings, plan))
      if (isComplete(plan) && values.out === undefined) await rewriteReports(benchmarks, readme)
    } else if (subject === 'postgres' && others.length === 0) {
      await inSurroundings(values, args, (surroundings) => benchPostgres(surroundings, postgresPlanOf(values)))
    } else if (subject === 'report' && others.length === 0) await rewriteReports(benchmarks, readme)
    else throw new Error(`there is no "${positionals.join(' ')}", see pnpm bench --help`)
    return 0
  } catch (error) {
    console.error(`no figures: ${error instanceof Error ? error.message : error}`)
    return 1
  }
}

/** @param {{ quick?: boolean, smoke?: boolean, only?: string, parts?: string, sizes?: string, rounds?: string }} values */
function planOf({ quick = false, smoke = false, only, parts: chosen, sizes, rounds }) {
  const chosenParts = chosen === undefined ? undefined : knownNames('part', chosen, parts)
  return {
    ...plans[smoke ? 'smoke' : quick ? 'quick' : 'full'],
    ...(only !== undefined && { only: knownNames('contender', only, contenderNames) }),
    ...(chosenParts && { parts: parts.filter((part) => chosenParts.includes(part)) }),
    ...(sizes !== undefined && { sizes: parseCounts(sizes) }),
    ...(rounds !== undefined && { rounds: parseCount(rounds) }),
  }
}

/** @param {{ quick?: boolean, smoke?: boolean, only?: string, sizes?: string, rounds?: string }} values */
function postgresPlanOf({ quick = false, smoke = false, only, sizes, rounds }) {
  return {
    ...postgresPlans[smoke ? 'smoke' : quick ? 'quick' : 'full'],
    ...(only !== undefined && { only: knownNames('contender', only, postgresNames) }),
    ...(sizes !== undefined && { sizes: parseCounts(sizes) }),
    ...(rounds !== undefined && { rounds: parseCount(rounds) }),
  }
}

/** @param {string} what @param {string} text names, by commas @param {readonly string[]} known */
function knownNames(what, text, known) {
  const names = text.split(',')
  const strange = names.find((name) => !known.includes(name))
  if (strange !== undefined) throw new Error(`there is no ${what} "${strange}": ${known.join(', ')}`)
  return names
}

/**
 * @param {{ out?: string, directory?: string }} values
 * @param {string[]} args
 * @param {(surroundings: import('./bench-all.js').Surroundings) => Promise<void>} run
 */
async function inSurroundings({ out, directory: parent }, args, run) {
  const directory = await mkdtemp(join(parent === undefined ? tmpdir() : fromCaller(parent), 'ingest-bench-'))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  process.once('SIGINT', () => {
    remove()
    process.exit(130)
  })
  try {
    await run({
      command: ['pnpm bench', ...args].join(' '),
      out: out === undefined ? benchmarks : fromCaller(out),
      directory,
      log: console.error,
      print: console.log,
    })
  } finally {
    remove()
  }
}

/** pnpm runs scripts in the directory of their package. @param {string} path */
function fromCaller(path) {
  return resolve(process.env.INIT_CWD ?? '', path)
}
