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
 */

/**
 * Reads TAP as tap writes it and prints a line for each test file, with its failures below it. Resolves at the end of
 * the stream.
 *
 * What counts as one is a test without tests inside, however many assertions it makes. A file that was killed, ran out
 * of time or holds no test counts as a failure of its own.
 *
 * @param {NodeJS.ReadableStream} tap
 * @param {(line: string) => void} print
 * @returns {Promise<Verdict>}
 */
export function reportTap(tap, print) {
  const total = newVerdict()
  /** @type {string[]} what the tests of the current file wrote besides TAP */
  let written = []

  const parser = watch(new Parser(), (file) => {
    const verdict = judgeFile(file)
    const { passed, failed, skipped, failures } = verdict
    const mark = failed > 0 ? '✗' : '✓'
    print(`${mark} ${file.name}: ${counts(passed, failed, skipped.length)} (${Math.round(file.timeMs)} ms)`)
    for (const text of failures) print(indent(text))
    const output = written.join('').trimEnd()
    if (failed > 0 && output) print(indent(`it wrote:\n${output}`))
    written = []
    add(total, verdict)
  })
  parser.on('extra', (text) => {
    if (text.trim() !== '1..0 # no tests found') written.push(text)
  })
  parser.on('bailout', (reason) => fail(total, `✗ bailed out: ${reason}`))

  return new Promise((resolve, reject) => {
    parser.on('complete', () => resolve(total))
    tap.on('error', reject)
    tap.pipe(parser)
  })
}

/**
 * @param {number} passed
 * @param {number} failed
 * @param {number} skipped
 */
export function counts(passed, failed, skipped) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
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

/** @param {Point} file */
function judgeFile(file) {
  const verdict = newVerdict()
  const end = earlyEnd(file)
  if (file.skipped === 'no tests found') fail(verdict, `✗ ${file.name}: no tests found`)
  else judge(file, file.name, verdict)
  if (end) fail(verdict, `✗ ${file.name}: ${end}`)
  return verdict
}

/**
 * @param {Point} file
 * @returns {string} what ended the file before its time, if anything did
 */
function earlyEnd({ name, diag }) {
  // tap may tell of a file that is out of time in the place of the next one, whose own result is lost
  if (diag?.expired && diag.expired !== name) return `lost, as ${diag.expired} was out of time`
  if (diag?.expired || diag?.signal === 'SIGALRM') return 'out of time'
  return diag?.signal ? `killed by ${diag.signal}` : ''
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
  } else if (!ok && verdict.failed === failedBefore && !earlyEnd(point)) {
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
function newVerdict() {
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
function add(total, { passed, failed, skipped, failures }) {
  total.passed += passed
  total.failed += failed
  total.skipped.push(...skipped)
  total.failures.push(...failures)
}

/** @param {string} text */
function indent(text) {
  return text.replace(/^(?=.)/gm, '    ')
}
