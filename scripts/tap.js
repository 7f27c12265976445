import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { relative, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { compileTests } from './compile-tests.js'
import { addVerdict, counts, newVerdict, readTap } from './tap-report.js'

// Compiles the tests, runs each file in a process of its own and closes with `N passed, N failed` alone on a line.
//
//   node scripts/tap.js [--jobs n] [--grep text] [--coverage directory] [file or directory …]
//
// With `--coverage`, V8 writes there what ran, for `c8 report`. tap's own runner is not used: the loaders that it adds to
// every process cost more than most tests, and its reporter may end without its summary when a test fails.

/** A file that runs for longer hangs in a way that tap's own time-out does not end, such as an endless loop. */
const hangMs = 30 * 60_000

/** The lines of each failure that are repeated at the end, since CI may keep only the end of a log. */
const failureLinesMax = 30

/** The files that take longest start first, so that no processor idles at the end. */
const longest = [
  'packages/lmdb/test/store-contract',
  'packages/lmdb/test/ids/store-contract',
  'packages/lmdb/test/environment/write-lock',
  'packages/lmdb/test/open-lmdb-store',
  'packages/lmdb/test/maps',
  'packages/cli/test/commands/copy',
  'packages/cli/test/serve',
  'packages/console/test/views/builds',
  'packages/console/test/views/events',
  'packages/console/test/shell',
  'packages/soak/test/soak',
  'packages/postgres/test/store-contract',
  'test/examples',
]

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    // more than processors: some tests wait for a disk, a browser or a time-out
    jobs: { type: 'string', default: String(availableParallelism() + 2) },
    grep: { type: 'string' },
    coverage: { type: 'string' },
  },
})

const files = await findFiles(positionals.map((path) => relative('', resolve(path)).replaceAll('\\', '/')))
// Node.js parses the certificates of NODE_EXTRA_CA_CERTS at each start, which took 40 of 60 ms. The tests start
// thousands of processes, and only those of `test/ci` use other hosts
const { NODE_OPTIONS: _, NODE_EXTRA_CA_CERTS: certificates, ...inherited } = process.env
const env = {
  ...inherited,
  TAP: '1',
  TAP_TIMEOUT: process.env.TAP_TIMEOUT ?? '600',
  // tap would remove the directories of a test before its teardown, while a store may still create files there: a removal
  // that fails skips the teardown, and the file waits for the processes of that test
  TAP_SAVE_FIXTURE: '1',
  ...(options.grep !== undefined && { TAP_GREP: options.grep }),
  ...(options.coverage !== undefined && { NODE_V8_COVERAGE: resolve(options.coverage) }),
}

const total = newVerdict()
const queue = [...files].sort((a, b) => rankOf(a) - rankOf(b))
await Promise.all(Array.from({ length: Number(options.jobs) }, runQueue))

const hasRun = total.passed + total.failed > 0
console.log()
for (const line of total.skipped) console.log(`skipped: ${line}`)
for (const text of total.failures) console.log(text.split('\n').slice(0, failureLinesMax).join('\n'))
if (!hasRun) console.log('no test ran')
console.log(counts(total))
process.exitCode = hasRun && total.failed === 0 ? 0 : 1

async function runQueue() {
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) await runFile(file)
}

/**
 * @param {string[]} paths test files or directories; without one, every test but those of `test/ci`, which `.ci/run` names
 * @returns {Promise<string[]>}
 */
async function findFiles(paths) {
  if (paths.length > 0 && paths.every((path) => path.endsWith('.js'))) return paths
  const compiled = await compileTests()
  if (paths.length === 0) return compiled.filter((file) => !file.startsWith('.build/test/ci/'))
  const all = paths.flatMap((path) => {
    const wanted = `.build/${path.replace(/\.ts$/, '.js')}/`
    const found = compiled.filter((file) => `${file}/`.startsWith(wanted))
    if (found.length === 0) throw new Error(`there is no test at ${path}`)
    return found
  })
  return [...new Set(all)]
}

/** @param {string} file */
function rankOf(file) {
  const index = longest.findIndex((path) => file.startsWith(`.build/${path}.`))
  return index === -1 ? longest.length : index
}

/** @param {string} file */
async function runFile(file) {
  const name = file.replace(/^\.build\/(.*)\.js$/, '$1.ts')
  const startedAt = performance.now()
  const isOfCi = file.startsWith('.build/test/ci/')
  const child = spawn(process.execPath, [file], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: isOfCi ? { ...env, NODE_EXTRA_CA_CERTS: certificates } : env,
  })
  const watchdog = setTimeout(() => child.kill('SIGKILL'), hangMs)
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)))
  const verdict = await readTap(name, child.stdout, ended)
  clearTimeout(watchdog)
  removeFixtures(file)
  addVerdict(total, verdict)
  const mark = verdict.failed > 0 ? '✗' : '✓'
  const ms = Math.round(performance.now() - startedAt)
  const lines = [`${mark} ${name}: ${counts(verdict)} (${ms} ms)`, ...verdict.failures]
  if (verdict.failed > 0 && verdict.output) lines.push(`it wrote:\n${verdict.output}`)
  console.log(lines.join('\n').replaceAll(/\n(?=.)/g, '\n    '))
}

/**
 * Removes the directories that the tests of a file have created.
 *
 * @param {string} file
 */
function removeFixtures(file) {
  const start = file.replaceAll(/[^\w.-]+/g, '-')
  const directory = '.tap/fixtures'
  if (!existsSync(directory)) return
  for (const name of readdirSync(directory)) {
    if (name.startsWith(start)) rmSync(`${directory}/${name}`, { recursive: true, force: true })
  }
}
