import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findContenders } from './contenders.js'
import { isComplete, onPostgres, parseCount, parts, plans } from './plan.js'
import { rewriteReports, runBenchmark } from './run-benchmark.js'

const benchmarks = fileURLToPath(new URL('../../../docs/benchmarks', import.meta.url))
const readme = fileURLToPath(new URL('../../../README.md', import.meta.url))
const contenderNames = findContenders().map(({ name }) => name)
const help = `pnpm bench [options]          measures everything, which takes about an hour and 70 GB of disk
pnpm bench --quick            the same in under three minutes, with short runs and small stores
pnpm bench postgres           Ingest on PostgreSQL beside plain inserts into the same server
pnpm bench report             writes the newest reports again from their figures, and those of the README

  --only <names>      contenders, by commas: ${contenderNames.join(', ')}
  --parts <names>     ${parts.join(', ')}
  --sizes <counts>    events stored before, for growth: 1M,10M
  --rounds <n>        how many times each is measured
  --directory <dir>   where stores are created and removed again (default: the directory for temporary files)
  --out <dir>         where the report goes (default: docs/benchmarks)
  --smoke             a few seconds in all, few contenders, to see that it runs

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
    const subject = positionals.join(' ')
    if (values.help) console.log(help)
    else if (subject === 'report') await rewriteReports(benchmarks, readme)
    else if (subject !== '' && subject !== 'postgres')
      throw new Error(`there is no "${subject}", see pnpm bench --help`)
    else await bench(planOf(subject, values), { args, ...values })
    return 0
  } catch (error) {
    console.error(`no figures: ${error instanceof Error ? error.message : error}`)
    return 1
  }
}

/**
 * @param {string} subject
 * @param {{ quick?: boolean, smoke?: boolean, only?: string, parts?: string, sizes?: string, rounds?: string }} values
 */
function planOf(subject, { quick = false, smoke = false, only, parts: chosen, sizes, rounds }) {
  const plan = plans[smoke ? 'smoke' : quick ? 'quick' : 'full']
  const wanted = chosen === undefined ? undefined : knownNames('part', chosen, parts)
  return {
    ...(subject === 'postgres' ? onPostgres(plan) : plan),
    ...(only !== undefined && { only: knownNames('contender', only, contenderNames) }),
    ...(wanted && { parts: parts.filter((part) => wanted.includes(part)) }),
    ...(sizes !== undefined && { sizes: sizes.split(',').map(parseCount) }),
    ...(rounds !== undefined && { rounds: parseCount(rounds) }),
  }
}

/** @param {string} kind @param {string} text names, by commas @param {readonly string[]} known */
function knownNames(kind, text, known) {
  const names = text.split(',')
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`there is no ${kind} "${unknown}": ${known.join(', ')}`)
  return names
}

/** @param {import('./plan.js').Plan} plan @param {{ args: string[], out?: string, directory?: string }} options */
async function bench(plan, { args, out, directory: parent }) {
  const directory = await mkdtemp(join(parent === undefined ? tmpdir() : fromCaller(parent), 'ingest-bench-'))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  process.once('SIGINT', () => {
    remove()
    process.exit(130)
  })
  try {
    const command = ['pnpm bench', ...args].join(' ')
    const target = out === undefined ? benchmarks : fromCaller(out)
    console.log(`the report is ${await runBenchmark({ command, out: target, directory, log: console.error }, plan)}`)
    if (isComplete(plan) && out === undefined) await rewriteReports(benchmarks, readme)
  } finally {
    remove()
  }
}

/** pnpm runs scripts in the directory of their package. @param {string} path */
function fromCaller(path) {
  return resolve(process.env.INIT_CWD ?? '', path)
}
