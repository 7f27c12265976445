import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { compileTests } from './compile-tests.js'
import { addVerdict, counts, newVerdict, readTap } from './tap-report.js'

// Compiles the tests, runs each file in a process of its own and closes with `N passed, N failed` alone on a line.
//
//   node scripts/tap.js [--jobs n] [--grep text] [--coverage] [file or directory …]
//
// tap's own runner is not used: the loaders that it adds to every process cost more than most tests.

const thresholds = { lines: 90, statements: 90, branches: 85, functions: 90 }
/** A file that runs for longer hangs in a way that tap's own time-out does not end, such as an endless loop. */
const hangMs = 30 * 60_000

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: String(availableParallelism()) },
    grep: { type: 'string' },
    coverage: { type: 'boolean', default: false },
  },
})

const files = findFiles(positionals.map((path) => relative('', resolve(path)).replaceAll('\\', '/')))
const coverageDirectory = options.coverage ? mkdtempSync(join(tmpdir(), 'ingest-coverage-')) : undefined
const { NODE_OPTIONS: _, ...inherited } = process.env
const env = {
  ...inherited,
  TAP: '1',
  TAP_TIMEOUT: process.env.TAP_TIMEOUT ?? '600',
  ...(options.grep !== undefined && { TAP_GREP: options.grep }),
  ...(coverageDirectory !== undefined && { NODE_V8_COVERAGE: coverageDirectory }),
}

const total = newVerdict()
const queue = [...files]
await Promise.all(Array.from({ length: Number(options.jobs) }, runQueue))

const problems = total.passed + total.failed === 0 ? ['no test ran'] : []
if (coverageDirectory !== undefined) {
  problems.push(...coverageProblems(coverageDirectory))
  rmSync(coverageDirectory, { recursive: true })
}
console.log()
for (const line of total.skipped) console.log(`skipped: ${line}`)
for (const text of total.failures) console.log(text.split('\n')[0])
for (const problem of problems) console.log(problem)
console.log(counts(total))
process.exitCode = total.failed + problems.length > 0 ? 1 : 0

async function runQueue() {
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) await runFile(file)
}

/**
 * @param {string[]} paths test files or directories; every test without one
 * @returns {string[]}
 */
function findFiles(paths) {
  if (paths.length > 0 && paths.every((path) => path.endsWith('.js'))) return paths
  const compiled = compileTests()
  if (paths.length === 0) return compiled
  const wanted = paths.map((path) => `.build/${path.replace(/\.ts$/, '.js')}/`)
  return compiled.filter((file) => wanted.some((path) => `${file}/`.startsWith(path)))
}

/** @param {string} file */
async function runFile(file) {
  const name = file.replace(/^\.build\/(.*)\.js$/, '$1.ts')
  const startedAt = performance.now()
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'], env })
  const watchdog = setTimeout(() => child.kill('SIGKILL'), hangMs)
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)))
  const verdict = await readTap(name, child.stdout, ended)
  clearTimeout(watchdog)
  addVerdict(total, verdict)
  const mark = verdict.failed > 0 ? '✗' : '✓'
  const ms = Math.round(performance.now() - startedAt)
  const lines = [`${mark} ${name}: ${counts(verdict)} (${ms} ms)`, ...verdict.failures]
  if (verdict.failed > 0 && verdict.output) lines.push(`it wrote:\n${verdict.output}`)
  console.log(lines.join('\n').replaceAll(/\n(?=.)/g, '\n    '))
}

/**
 * @param {string} directory where V8 wrote what ran
 * @returns {string[]} a line for each kind of coverage below its threshold
 */
function coverageProblems(directory) {
  const report = mkdtempSync(join(tmpdir(), 'ingest-report-'))
  // a build repeats what another file holds, so only the compiled sources count
  const c8 = fileURLToPath(new URL('bin/c8.js', import.meta.resolve('c8/package.json')))
  const args = ['report', '--temp-directory', directory, '--reports-dir', report, '--reporter', 'json-summary']
  const excluded = ['**/dist/**', '**/test/**', 'scripts/**'].flatMap((pattern) => ['--exclude', pattern])
  const { status } = spawnSync(process.execPath, [c8, ...args, ...excluded], { stdio: 'inherit' })
  if (status !== 0) return ['coverage: c8 failed']
  const { total: all, ...files } = JSON.parse(readFileSync(join(report, 'coverage-summary.json'), 'utf8'))
  rmSync(report, { recursive: true })
  return Object.entries(thresholds).flatMap(([kind, percentage]) => {
    const { pct } = all[kind]
    console.log(`coverage: ${pct} % of ${kind}, ${percentage} % needed`)
    if (pct >= percentage) return []
    const worst = Object.entries(files)
      .map(([file, found]) => ({ file: relative('', file), ...found[kind] }))
      .sort((a, b) => b.total - b.covered - (a.total - a.covered))
      .slice(0, 3)
      .map(({ file, pct }) => `${file} (${pct} %)`)
    return [`too little coverage of ${kind}; most is missing in ${worst.join(', ')}`]
  })
}
