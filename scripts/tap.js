import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { counts, reportTap } from './tap-report.js'

// Runs tap and closes with `N passed, N failed` alone on a line. Arguments, such as the name of a test file, are tap's;
// with any, coverage is left out, as a part of the tests cannot cover everything.

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

/** @returns {string[]} a line for each kind of coverage that is below its threshold in .taprc */
function coverageProblems() {
  if (!existsSync(summaryFile)) return ['coverage: none was measured']
  const { total, ...files } = JSON.parse(readFileSync(summaryFile, 'utf8'))
  return thresholds()
    .filter(([kind, least]) => total[kind].pct < least)
    .map(([kind, least]) => {
      const missing = Object.entries(files)
        .map(([file, { [kind]: of }]) => ({ file: relative('', file), pct: of.pct, count: of.total - of.covered }))
        .sort((a, b) => b.count - a.count)
      const worst = missing.slice(0, 3).map(({ file, pct }) => `${file} (${pct} %)`)
      return `coverage: ${total[kind].pct} % of ${kind}, needed are ${least} %; most is missing in ${worst.join(', ')}`
    })
}

/** @returns {[string, number][]} */
function thresholds() {
  const lines = readFileSync('.taprc', 'utf8').matchAll(/^(lines|statements|branches|functions): (\d+)$/gm)
  return Array.from(lines, ([, kind, least]) => [String(kind), Number(least)])
}
