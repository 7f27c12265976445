import { rmSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findContenders } from './contenders/find-contenders.js'
import { isComplete, parseCount, parts, plans, quoted } from './plan.js'
import { makePlot } from './report/plot.js'
import { makeReport } from './report/report.js'
import { runBenchmark } from './run-benchmark.js'

const docs = new URL('../../../docs/', import.meta.url)
const contenderNames = findContenders().map(({ name }) => name)
const help = `pnpm bench [options]          measures all parts: 45 minutes, 60 GB of free disk
pnpm bench --sizes 10M        the same without a store of 100 M events: 35 minutes, 15 GB
pnpm bench --quick            short runs and small stores, without databases and standby: under three minutes

A run of all parts with ${quoted.join(', ')} replaces docs/benchmark.md and docs/benchmark.svg;
others, and those with --quick, print their report.

  --only <names>      contenders, separated by commas: ${contenderNames.join(', ')}
  --parts <names>     ${parts.join(', ')}.
                      Their minutes: throughput 4, batches 14, repeats 4, growth 3 (10 more for 100 M), latency 1,
                      uploads 1, send 1, databases 3, standby 4
  --sizes <counts>    events stored before, for growth, such as 1M,10M
  --rounds <n>        how many times each part is measured
  --directory <dir>   where stores are created and removed again (default: the directory for temporary files)
  --smoke             the shortest run, with few contenders, to see that everything works

POSTGRES_URL names a PostgreSQL server to use instead of starting one; databases called bench_* are created and dropped
there. The part standby is then not measured.`

const options = /** @type {const} */ ({
  help: { type: 'boolean' },
  quick: { type: 'boolean' },
  smoke: { type: 'boolean' },
  only: { type: 'string' },
  parts: { type: 'string' },
  sizes: { type: 'string' },
  rounds: { type: 'string' },
  directory: { type: 'string' },
})

process.exit(await main(process.argv.slice(2)))

/** @param {string[]} given @returns {Promise<number>} the exit code */
async function main(given) {
  // pnpm passes on the `--` that npm needs
  const args = given.filter((arg) => arg !== '--')
  try {
    const { values } = parseArgs({ args, options })
    if (values.help) console.log(help)
    else await bench(planOf(values), { args, ...values })
    return 0
  } catch (error) {
    console.error(`no figures: ${error instanceof Error ? error.message : error}`)
    return 1
  }
}

/**
 * @param {{ quick?: boolean, smoke?: boolean, only?: string, parts?: string, sizes?: string, rounds?: string }} values
 */
function planOf({ quick = false, smoke = false, only, parts: chosen, sizes, rounds }) {
  const plan = plans[smoke ? 'smoke' : quick ? 'quick' : 'full']
  const wanted = chosen === undefined ? undefined : knownNames('part', chosen, parts)
  return {
    ...plan,
    ...(only !== undefined && { only: knownNames('contender', only, contenderNames) }),
    ...(wanted && { parts: parts.filter((part) => wanted.includes(part)) }),
    ...(sizes !== undefined && { sizes: sizes.split(',').map(parseCount) }),
    ...(rounds !== undefined && { rounds: parseCount(rounds), fewerRounds: parseCount(rounds) }),
  }
}

/** @param {string} kind @param {string} text names, separated by commas @param {readonly string[]} known */
function knownNames(kind, text, known) {
  const names = text.split(',')
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`there is no ${kind} "${unknown}": ${known.join(', ')}`)
  return names
}

/** @param {import('./plan.js').Plan} plan @param {{ args: string[], directory?: string }} options */
async function bench(plan, { args, directory: parent }) {
  const directory = await mkdtemp(join(parent === undefined ? tmpdir() : fromCaller(parent), 'ingest-bench-'))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  process.once('SIGINT', () => {
    remove()
    process.exit(130)
  })
  try {
    const command = ['pnpm bench', ...args].join(' ')
    const measured = await runBenchmark({ command, directory, log: console.error }, plan)
    const report = makeReport(measured)
    if (!isComplete(plan)) return console.log(report)
    await writeFile(new URL('benchmark.md', docs), report)
    await writeFile(new URL('benchmark.svg', docs), makePlot(measured))
    console.log('docs/benchmark.md and docs/benchmark.svg are written')
  } finally {
    remove()
  }
}

/** Resolves a path from the directory of the user: pnpm runs scripts in that of their package. @param {string} path */
function fromCaller(path) {
  return resolve(process.env.INIT_CWD ?? '', path)
}
