import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { counts, reportTap } from './tap-report.js'

// Runs tap and closes with `N passed, N failed` alone on a line. Arguments, such as the name of a test file, are tap's;
// with any, coverage is left out, as a part of the tests cannot cover everything.

// Only sources count for coverage, not the builds that some tests run: a bundle repeats what another file holds, so the
// share of it that ran says nothing. For the same reason it is this that compares, and not tap.

const least = { lines: 90, statements: 90, branches: 85, functions: 90 }
const summaryFile = '.tap/report/coverage-summary.json'
const args = process.argv.slice(2)
const isWhole = args.length === 0

rmSync(summaryFile, { force: true })
const tap = spawn(
  process.execPath,
  [
    fileURLToPath(new URL('dist/esm/run.mjs', import.meta.resolve('tap/package.json'))),
    '--reporter=tap',
    '--coverage-report=json-summary',
    '--allow-incomplete-coverage',
    ...(isWhole ? [] : ['--disable-coverage']),
    ...args,
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
)
const [{ passed, failed, skipped, failures }, [exitCode, signal]] = await Promise.all([
  reportTap(tap.stdout, console.log),
  once(tap, 'close'),
])

const problems = findProblems()

console.log()
for (const line of skipped) console.log(`skipped: ${line}`)
for (const text of failures) console.log(text.split('\n')[0])
for (const problem of problems) console.log(problem)
console.log(counts(passed, failed, skipped.length))
process.exitCode = failed + problems.length > 0 ? 1 : 0

/** @returns {string[]} what is wrong besides failed tests */
function findProblems() {
  if (passed + failed === 0) return ['no test ran']
  const problems = isWhole ? coverageProblems() : []
  const isExplained = exitCode === 0 || failed + problems.length > 0
  return isExplained ? problems : [`tap ended with ${signal ?? `exit code ${exitCode}`} and did not say why`]
}

/** @returns {string[]} a line for each kind of coverage that is below its least percentage */
function coverageProblems() {
  if (!existsSync(summaryFile)) return ['coverage: none was measured']
  const { total: _, ...files } = JSON.parse(readFileSync(summaryFile, 'utf8'))
  const sources = Object.entries(files)
    .map(([file, counts]) => ({ file: relative('', file).replaceAll('\\', '/'), counts }))
    .filter(({ file }) => !file.includes('/dist/'))
  return Object.entries(least).flatMap(([kind, percentage]) => {
    const parts = sources.map(({ file, counts }) => ({ file, ...counts[kind] }))
    const covered = sum(parts.map((part) => part.covered))
    const found = (100 * covered) / sum(parts.map((part) => part.total))
    if (found >= percentage) return []
    const worst = parts.sort((a, b) => b.total - b.covered - (a.total - a.covered)).slice(0, 3)
    const most = worst.map(({ file, pct }) => `${file} (${pct} %)`).join(', ')
    return [`coverage: ${found.toFixed(2)} % of ${kind}, needed are ${percentage} %; most is missing in ${most}`]
  })
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}
