import assert from 'node:assert/strict'
import t from 'tap'
import { createRun } from '../../src/schemas/check.ts'
import { compilePattern } from '../../src/schemas/pattern.ts'
import { createRandom, type Random, seeds } from './random.ts'

const steps = 1e9
const matches = (source: string, text: string) => compilePattern(source).test(text, createRun(steps))

function stepsOf(source: string, text: string): number {
  const run = createRun(steps)
  compilePattern(source).test(text, run)
  return steps - run.steps
}

/** Maximum steps per character, for a text of any length. */
const stepsPerCharacterMax = 4

t.test('a text that takes a backtracking engine exponential time takes steps proportional to its length', async (t) => {
  const hostile: [source: string, text: string][] = [
    ['^([A-Za-z0-9]+[ _-]?)+$', 'a'],
    ['^(a+)+$', 'a'],
    ['(a|aa)+$', 'a'],
    ['^(a|a)*$', 'a'],
    ['\\s+$', ' '],
    ['^(.*?,){12}x', ','],
    ['(x+x+)+y', 'x'],
    ['^(\\w+\\b)*!$', 'a'],
  ]
  for (const [source, text] of hostile) {
    const long = `${text.repeat(100_000)}\n!`
    t.ok(stepsOf(source, long) < stepsPerCharacterMax * long.length, source)
  }
})

t.test('an ordinary pattern charges its first text no more than later ones', async (t) => {
  const ordinary: [source: string, text: string][] = [
    ['^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$', '3f9c2ab0-17d4-4e6b-8a5c-0123456789ab'],
    ['^[0-9a-f]{64}$', '0123456789abcdef'.repeat(4)],
    ['^[^@\\s]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$', 'a.b@mail.example'],
    ['\\b(error|fatal|panic|failed|timeout)\\b', 'connection failed after 3 attempts'],
    ['[A-Za-z0-9]{20,40}', 'abcDEF0123456789abcDEF012345'],
    ['[a-z]{3,64}$', 'abcdefghijklmnopqrstuvwxyz'.repeat(2)],
    ['^[^<>]*$', String.fromCodePoint(...Array.from({ length: 1500 }, (_, i) => 0x4e00 + i))],
  ]
  for (const [source, text] of ordinary) {
    const pattern = compilePattern(source)
    const run = createRun(1000)
    t.ok(pattern.test(text, run), source)
    const first = run.steps
    t.ok(pattern.test(text, run))
    t.equal(first - run.steps, 1000 - first, source)
  }
})

t.test('a pattern whose DFA grows exponentially costs steps for each state', async (t) => {
  const random = createRandom(1)
  const text = Array.from({ length: 20_000 }, () => random.oneOf(['a', 'b'])).join('')
  const source = '(a|b)*a(a|b){20}c'
  t.notOk(matches(source, text))
  t.ok(stepsOf(source, text) > 20 * text.length)
  t.throws(() => compilePattern(source).test(text, createRun(10_000)), /out of steps/)
  // states of the NFA that consume no character cost as much
  t.throws(() => compilePattern('(?:a|b)*a(?:a|b){10}c|(?:){1900}d').test(text, createRun(10_000)), /out of steps/)
})

t.test('a pattern that is not regular, or needs too many states, is refused', async (t) => {
  for (const source of ['(a)\\1', '(?<n>a)\\k<n>']) t.throws(() => compilePattern(source), /back-references/)
  for (const source of ['(?=a)', 'a(?!b)', '(?<=a)b', '(?<!a)b']) t.throws(() => compilePattern(source), /look-ahead/)
  for (const source of ['a{3000}', '((a{50}){50}){50}', '(?:){100000}', '(a?){0,1001}']) {
    t.throws(() => compilePattern(source), /2000 states/, source)
  }
  t.throws(() => compilePattern(`${'('.repeat(60)}${')'.repeat(60)}`), /50 groups/)
  for (const source of ['(', '[', 'a**', '\\p{Nope}', '\\-', 'a{2,1}'])
    t.throws(() => compilePattern(source), SyntaxError)
})

t.test('a pattern matches as RegExp does', async (t) => {
  const cases: [source: string, ...texts: string[]][] = [
    ['', '', 'a'],
    ['a|', 'b'],
    ['^$', '', 'a', '\n'],
    ['[^]', 'a', ''],
    ['[]', 'a', ''],
    ['[\\]a-]+$', ']', '-', 'b'],
    ['^.$', '\n', '🎮', '\ud83c', 'é', '\u2028'],
    ['\\u{1F3AE}', '🎮'],
    ['\\ud83c\\udfae', '🎮'],
    ['\\ud83c', '🎮', '\ud83c'],
    ['^[🎮é]$', '🎮', 'é', 'e'],
    ['\\x41\\u0042\\cJ\\t\\0', 'AB\n\t\0'],
    ['^\\p{Lu}\\P{L}$', 'É1', 'é1'],
    ['^\\bfoo\\b', 'foo', 'foo bar', 'foobar', 'é foo'],
    ['o\\B', 'foo', 'of', 'o'],
    ['a$|^b', 'ba', 'cb', 'a'],
    ['(?<year>\\d{4})-(?:0[1-9]|1[0-2])', 'in 2026-11', '2026-13'],
    ['x{2,3}?y{2}z{1,}$', 'xxyyz', 'xyyz', 'xxxxyyzz'],
    ['a.^b', 'a\nb'],
    ['(^|,)a(,|$)', 'b,a', 'ba', 'a,b'],
    ['\\/\\.\\{\\}', '/.{}'],
  ]
  for (const [source, ...texts] of cases) {
    for (const text of texts) t.equal(matches(source, text), new RegExp(source, 'u').test(text), `${source} ${text}`)
  }
})

const atoms = [
  'a',
  'b',
  'é',
  '🎮',
  '.',
  '\\d',
  '\\w',
  '\\W',
  '[ab]',
  '[^a]',
  '[a-c🎮]',
  '\\p{L}',
  '\\s',
  '\\.',
  '^',
  '$',
]
const assertions = ['^', '$', '\\b', '\\B']
const quantifiers = ['', '', '', '', '*', '+', '?', '*?', '{2}', '{0,2}', '{1,}', '{0}']

function randomPattern(random: Random, depth: number): string {
  const part = () => {
    if (depth > 0 && random.number(3) === 0) return `(${randomPattern(random, depth - 1)})${random.oneOf(quantifiers)}`
    const atom = random.oneOf([...atoms, ...assertions])
    return assertions.includes(atom) ? atom : `${atom}${random.oneOf(quantifiers)}`
  }
  return random.list(2, () => random.list(3, part).join('')).join('|')
}

/** Searches by code points, as in ECMA-262: V8 also finds an empty match between the two units of one. */
function matchesSomewhere(sticky: RegExp, text: string): boolean {
  for (let i = 0; i <= text.length; i += (text.codePointAt(i) ?? 0) > 0xffff ? 2 : 1) {
    sticky.lastIndex = i
    if (sticky.test(text)) return true
  }
  return false
}

t.test('random patterns match random texts as RegExp does', async () => {
  for (const seed of seeds(2000)) {
    const random = createRandom(seed)
    const source = randomPattern(random, 3)
    const pattern = compilePattern(source)
    const native = new RegExp(source, 'uy')
    for (let i = 0; i < 20; i++) {
      const text = random
        .list(8, () => random.oneOf(['a', 'b', 'c', '1', ' ', '\n', 'é', '🎮', '\ud83c', '\udfae']))
        .join('')
      const expected = matchesSomewhere(native, text)
      // a new run: states that earlier texts created are reused
      assert.equal(pattern.test(text, createRun(steps)), expected, `seed ${seed}: /${source}/ ${JSON.stringify(text)}`)
    }
  }
})
