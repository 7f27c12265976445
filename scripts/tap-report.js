import { Parser } from 'tap-parser'

/**
 * A point of TAP. An assertion has no `points`; a test has those of the level below it.
 *
 * @typedef {object} Point
 * @property {string} name
 * @property {boolean} ok
 * @property {string} skipped The reason, or nothing.
 * @property {Record<string, any> | null} diag
 * @property {number} timeMs
 * @property {Point[] | undefined} points
 *
 * @typedef {object} Verdict
 * @property {number} passed
 * @property {number} failed
 * @property {string[]} skipped A line for each.
 * @property {string[]} failures For each failure a line with its name, and below it what is known.
 * @property {string} [output] What a file wrote besides TAP.
 */

/**
 * Reads the TAP of one test file.
 *
 * What counts as one is a test without tests inside, however many assertions it makes. A file that was killed, ran out
 * of time, holds no test or ends with an error that no test shows counts as a failure of its own.
 *
 * @param {string} name
 * @param {NodeJS.ReadableStream} tap
 * @param {Promise<number | string | null>} ended resolves to the exit code or the signal of its process
 * @returns {Promise<Verdict>}
 */
export async function readTap(name, tap, ended) {
  /** @type {Point[]} */
  const points = []
  /** @type {string[]} what the tests wrote besides TAP */
  const output = []
  /** @type {string[]} */
  const problems = []
  const parser = watch(new Parser(), (point) => points.push(point))
  parser.on('extra', (text) => output.push(text))
  parser.on('bailout', (reason) => problems.push(`bailed out: ${reason}`))
  const complete = new Promise((resolve) => parser.on('complete', resolve))
  tap.pipe(parser)
  const [results, end] = await Promise.all([complete, ended])

  const verdict = newVerdict()
  for (const point of points) judge(point, `${name} › ${point.name}`, verdict)
  if (typeof end === 'string') problems.push(`killed by ${end}`)
  else if (points.length === 0)
    problems.push(end === 0 ? 'no tests found' : `ended with exit code ${end} before any test`)
  else if (verdict.failed === 0 && (end !== 0 || !results.ok)) {
    problems.push(`ended with exit code ${end} before its plan was done`)
  }
  for (const problem of problems) fail(verdict, `✗ ${name}: ${problem}`)
  return { ...verdict, output: output.join('').trimEnd() }
}

/** @param {Verdict} verdict */
export function counts({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}`
}

/**
 * Calls back with each point of this level, once all below it is known.
 *
 * @param {Parser} parser
 * @param {(point: Point) => void} onPoint
 */
function watch(parser, onPoint) {
  /** @type {{ name: string, points: Point[] } | undefined} */
  let below
  parser.on('child', (/** @type {Parser} */ child) => {
    /** @type {Point[]} */
    const points = []
    below = { name: child.name, points }
    watch(child, (point) => points.push(point))
  })
  parser.on('assert', ({ name, ok, skip, todo, diag, time }) => {
    const skipped = todo ? `to do: ${todo}` : skip === true ? name : skip || ''
    onPoint({ name, ok, skipped, diag, timeMs: time ?? 0, points: undefined, ...below })
    below = undefined
  })
  parser.on('complete', () => {
    if (below) onPoint({ ok: false, skipped: '', diag: { error: 'did not end' }, timeMs: 0, ...below })
  })
  return parser
}

/**
 * @param {Point} point
 * @param {string} name
 * @param {Verdict} verdict
 */
function judge(point, name, verdict) {
  const { ok, skipped, diag, points = [] } = point
  if (skipped) {
    verdict.skipped.push(`${name}: ${skipped}`)
    return
  }
  const failedBefore = verdict.failed
  const tests = points.filter((each) => each.points || each.skipped)
  for (const test of tests) judge(test, `${name} › ${test.name}`, verdict)

  const broken = points.filter((each) => !each.points && !each.skipped && !each.ok)
  if (broken.length > 0) {
    fail(verdict, ...broken.map((each) => `✗ ${name} › ${each.name}\n${indent(explain(each.diag))}`))
  } else if (!ok && verdict.failed === failedBefore) {
    fail(verdict, `✗ ${name}\n${indent(explain(diag))}`)
  } else if (ok && tests.length === 0) {
    verdict.passed++
  }
}

/** What a diagnostic holds that no reader needs: how the test was run, and the source that its location leads to. */
const noise = new Set(
  'args at command compare cwd diff externalID generatedMessage source stack stdio tapCaught test'.split(' '),
)

/**
 * @param {Record<string, any> | null} diag
 * @returns {string} the location, the difference, whatever else is known, and the stack
 */
function explain(diag) {
  if (!diag) return ''
  const { at, diff, stack } = diag
  const rest = Object.entries(diag).filter(([key, value]) => !noise.has(key) && value !== null)
  return [
    at?.fileName ? `${at.fileName}:${at.lineNumber}:${at.columnNumber}` : '',
    diff,
    ...rest.map(([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`),
    stack,
  ]
    .filter(Boolean)
    .map((text) => String(text).trimEnd())
    .join('\n')
}

/** @returns {Verdict} */
export function newVerdict() {
  return { passed: 0, failed: 0, skipped: [], failures: [] }
}

/**
 * @param {Verdict} verdict
 * @param {string[]} failures what is to be read about one failed test
 */
function fail(verdict, ...failures) {
  verdict.failed++
  verdict.failures.push(...failures)
}

/**
 * @param {Verdict} total
 * @param {Verdict} verdict
 */
export function addVerdict(total, { passed, failed, skipped, failures }) {
  total.passed += passed
  total.failed += failed
  total.skipped.push(...skipped)
  total.failures.push(...failures)
}

/** @param {string} text */
function indent(text) {
  return text.replace(/^(?=.)/gm, '    ')
}
