import { createRun, type Run, spend } from './check.ts'

/**
 * A regular expression of ECMA-262 with the flag `u`, as JSON Schema has them, in linear time: `RegExp` backtracks, and
 * takes seconds for a short text that nearly matches `^(a+)+$`. The pattern becomes an NFA (Thompson), and that a DFA
 * whose states are made when a text first needs them. What is not regular, look-around and back-references, is refused.
 */
export interface Pattern {
  /**
   * Whether a part of `text` matches. Charges `run` by the length, and for states that are made, beyond the first
   * {@link freeSteps} of the pattern.
   */
  test(text: string, run: Run): boolean
}

/** The most states of an NFA. A counted repetition takes one for each copy. */
const statesMax = 2000
/** The most states of a DFA that are kept. */
const dfaStatesMax = 1000
const groupDepthMax = 50
/**
 * The steps for states that are made which no event is charged for, once for each pattern: a usual one has made all by
 * then, and does not reject the first events that it sees.
 */
const freeSteps = 1_000_000

/** @throws {SyntaxError} for a pattern that is not valid, or that this engine does not support */
export function compilePattern(source: string): Pattern {
  // all that is parsed below is valid
  new RegExp(source, 'u')
  const tree = parse(source)
  return createMatcher(buildNfa(tree))
}

type Test = (codePoint: number) => boolean
type Assertion = '^' | '$' | '\\b' | '\\B'
type Tree =
  | { kind: 'char'; source: string }
  | { kind: 'assertion'; assertion: Assertion }
  | { kind: 'all'; parts: Tree[] }
  | { kind: 'any'; parts: Tree[] }
  | { kind: 'repeat'; tree: Tree; min: number; max: number }

function parse(source: string): Tree {
  let at = 0
  return parseAny(0)

  function parseAny(depth: number): Tree {
    if (depth > groupDepthMax) throw new SyntaxError(`more than ${groupDepthMax} groups inside each other`)
    const parts = [parseAll(depth)]
    while (source[at] === '|') {
      at++
      parts.push(parseAll(depth))
    }
    return parts.length === 1 ? (parts[0] as Tree) : { kind: 'any', parts }
  }

  function parseAll(depth: number): Tree {
    const parts: Tree[] = []
    while (at < source.length && source[at] !== '|' && source[at] !== ')') parts.push(parseRepeated(depth))
    return { kind: 'all', parts }
  }

  function parseRepeated(depth: number): Tree {
    const tree = parseTerm(depth)
    const quantifier = take(/[*+?]\??|\{\d+(?:,\d*)?\}\??/y)
    return quantifier === '' ? tree : { kind: 'repeat', tree, ...rangeOf(quantifier) }
  }

  function parseTerm(depth: number): Tree {
    if (source[at] === '(') return parseGroup(depth)
    const assertion = take(/[$^]|\\b/iy)
    if (assertion !== '') return { kind: 'assertion', assertion: assertion as Assertion }
    if (take(/\\[1-9k]/y) !== '') throw new SyntaxError('back-references are not supported')
    return { kind: 'char', source: take(charPattern) }
  }

  function parseGroup(depth: number): Tree {
    take(/\((?:\?(?::|<(?![=!])[^>]*>))?/y)
    if (source[at] === '?') throw new SyntaxError('look-ahead, look-behind and modifiers are not supported')
    const tree = parseAny(depth + 1)
    at += ')'.length
    return tree
  }

  function take(pattern: RegExp): string {
    pattern.lastIndex = at
    const [text = ''] = pattern.exec(source) ?? []
    at += text.length
    return text
  }
}

function rangeOf(quantifier: string): { min: number; max: number } {
  if (quantifier[0] === '?') return { min: 0, max: 1 }
  if (quantifier[0] !== '{') return { min: quantifier[0] === '+' ? 1 : 0, max: Number.POSITIVE_INFINITY }
  const [min = '', max = min] = quantifier.replace(/[{}?]/g, '').split(',')
  return { min: Number(min), max: max === '' ? Number.POSITIVE_INFINITY : Number(max) }
}

/** What matches one code point, in a valid pattern: a class, an escape, or any other character. */
const charPattern =
  /\[(?:\\.|[^\]\\])*\]|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u\{[\da-fA-F]+\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c[A-Za-z]|\\[pP]\{[^}]*\}|\\.|./suy

type NfaState =
  | { kind: 'char'; test: number; next: number }
  | { kind: 'assertion'; assertion: Assertion; next: number }
  | { kind: 'split'; next: number[] }
  | { kind: 'match' }

interface Nfa {
  states: readonly NfaState[]
  start: number
  /** What the states test, each once. */
  tests: readonly Test[]
}

function buildNfa(tree: Tree): Nfa {
  const states: NfaState[] = [{ kind: 'match' }]
  const tests: Test[] = []
  const testsBySource = new Map<string, number>()
  return { states, start: build(tree, 0), tests }

  function add(state: NfaState): number {
    if (states.length === statesMax) {
      throw new SyntaxError(`it needs more than ${statesMax} states: use maxLength in place of long repetitions`)
    }
    return states.push(state) - 1
  }

  /** The state that begins what matches `part` and goes on at `next`. */
  function build(part: Tree, next: number): number {
    if (part.kind === 'char') return add({ kind: 'char', test: testOf(part.source), next })
    if (part.kind === 'assertion') return add({ ...part, next })
    if (part.kind === 'any') return add({ kind: 'split', next: part.parts.map((each) => build(each, next)) })
    if (part.kind === 'all') return part.parts.reduceRight((after, each) => build(each, after), next)
    return buildRepeat(part, next)
  }

  function buildRepeat({ tree, min, max }: Tree & { kind: 'repeat' }, next: number): number {
    let first = next
    if (max === Number.POSITIVE_INFINITY) {
      const loop: NfaState = { kind: 'split', next: [next] }
      first = add(loop)
      loop.next.push(build(tree, first))
    } else {
      for (let i = min; i < max; i++) first = add({ kind: 'split', next: [next, build(tree, first)] })
    }
    for (let i = 0; i < min; i++) {
      // also for what has no states, such as (?:){1000000}
      first = add({ kind: 'split', next: [build(tree, first)] })
    }
    return first
  }

  function testOf(source: string): number {
    const known = testsBySource.get(source)
    if (known !== undefined) return known
    testsBySource.set(source, tests.length)
    return tests.push(createTest(source)) - 1
  }
}

function createTest(source: string): Test {
  const only = source.codePointAt(0) as number
  // `.` and classes have several
  if (source !== '.' && source.length === String.fromCodePoint(only).length) return (codePoint) => codePoint === only
  const one = new RegExp(`^${source}$`, 'u')
  return (codePoint) => one.test(String.fromCodePoint(codePoint))
}

/** A state of the DFA. */
interface DfaState {
  /** Of the NFA, sorted; assertions are followed when the next code point is known. */
  nfa: readonly number[]
  isStart: boolean
  /** Whether the code point before is a word character. */
  isAfterWord: boolean
  /** By class of the next code point; undefined if not made yet. */
  next: (DfaState | undefined)[]
  /** Whether a text that ends here matches; undefined if not known yet. */
  matchesAtEnd?: boolean
}

const firstSurrogate = 0xd800

function createMatcher({ states, start, tests }: Nfa): Pattern {
  const matched: DfaState = { nfa: [], isStart: false, isAfterWord: false, next: [] }
  const hopeless: DfaState = { nfa: [], isStart: false, isAfterWord: false, next: [] }
  let freeLeft = freeSteps
  const classes = createClasses(tests, charge)
  const dfa = new Map<string, DfaState>()
  let first = toState(follow([start], atStart, createRun(freeSteps)), true, false)

  return {
    test(text, run) {
      spend(run, 1 + (text.length >> 2))
      let state = first
      if (state === matched) return true
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i)
        const codePoint = unit < firstSurrogate ? unit : (text.codePointAt(i) as number)
        if (codePoint > 0xffff) i++
        const next = classes.of(codePoint, run)
        state = state.next[next] ?? step(state, codePoint, next, run)
        if (state === matched) return true
        if (state === hopeless) return false
      }
      state.matchesAtEnd ??= matchesAtEnd(state, run)
      return state.matchesAtEnd
    },
  }

  /** Charges for what is made once and kept. */
  function charge(run: Run, steps: number): void {
    if (steps <= freeLeft) freeLeft -= steps
    else spend(run, steps)
  }

  function matchesAtEnd(state: DfaState, run: Run): boolean {
    return hasMatch(follow(state.nfa, { ...state, isEnd: true, isBeforeWord: false }, run))
  }

  function step(state: DfaState, codePoint: number, next: number, run: Run): DfaState {
    const isWord = isWordCharacter(codePoint)
    const context = { ...state, isEnd: false, isBeforeWord: isWord }
    const from = follow(state.nfa, context, run)
    if (hasMatch(from)) return link(matched)
    const targets = new Set([start])
    for (const index of from) {
      const each = states[index] as NfaState
      if (each.kind === 'char' && (tests[each.test] as Test)(codePoint)) targets.add(each.next)
    }
    const after = follow([...targets], afterStart, run)
    return link(toState(after, false, isWord))

    function link(to: DfaState): DfaState {
      state.next[next] = to
      return to
    }
  }

  function toState(nfa: number[], isStart: boolean, isAfterWord: boolean): DfaState {
    if (hasMatch(nfa)) return matched
    if (nfa.length === 0) return hopeless
    const key = `${isStart} ${isAfterWord} ${nfa}`
    const known = dfa.get(key)
    if (known !== undefined) return known
    if (dfa.size === dfaStatesMax) {
      dfa.clear()
      first = { nfa: first.nfa, isStart: true, isAfterWord: false, next: [] }
    }
    const state = { nfa, isStart, isAfterWord, next: [] }
    dfa.set(key, state)
    return state
  }

  function hasMatch(nfa: readonly number[]): boolean {
    // the first state is the match, and they are sorted
    return nfa[0] === 0
  }

  /** The states that are reached without a code point, sorted. Assertions that do not hold end there or stay open. */
  function follow(from: readonly number[], context: Context, run: Run): number[] {
    const reached = new Set<number>()
    const open = [...from]
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      if (reached.has(index)) continue
      charge(run, stepsPerState)
      reached.add(index)
      const state = states[index] as NfaState
      if (state.kind === 'split') open.push(...state.next)
      if (state.kind === 'assertion') {
        if (assertionHolds(state.assertion, context)) open.push(state.next)
      }
    }
    return [...reached].filter((index) => staysOpen(states[index] as NfaState, context)).sort((a, b) => a - b)
  }
}

/** What is known at a place of a text. */
interface Context {
  isStart: boolean
  isAfterWord?: boolean
  isEnd?: boolean
  isBeforeWord?: boolean
}

const atStart: Context = { isStart: true }
const afterStart: Context = { isStart: false }

/** Whether a state waits for the next code point, or is the match. */
function staysOpen(state: NfaState, context: Context): boolean {
  if (state.kind === 'assertion') return assertionHolds(state.assertion, context) === undefined
  return state.kind !== 'split'
}

/** Undefined if it is not known yet. */
function assertionHolds(assertion: Assertion, { isStart, isAfterWord, isEnd, isBeforeWord }: Context) {
  if (assertion === '^') return isStart
  if (assertion === '$') return isEnd
  if (isBeforeWord === undefined) return undefined
  return (isAfterWord !== isBeforeWord) === (assertion === '\\b')
}

function isWordCharacter(codePoint: number): boolean {
  return codePoint < 128 && /\w/.test(String.fromCharCode(codePoint))
}

/** A state of the NFA that a step of the DFA reaches which is not made yet: a set, a sort and a text. */
const stepsPerState = 16

/** Numbers code points, so that those which pass the same tests share a number. */
function createClasses(tests: readonly Test[], charge: (run: Run, steps: number) => void) {
  const numbers = new Map<string, number>()
  /** The last code point of each slot and its class: those of ASCII have slots of their own. */
  const slots = 1024
  const codePoints = new Int32Array(slots).fill(-1)
  const classes = new Int32Array(slots)

  function find(codePoint: number): number {
    const passed = tests.map((test) => (test(codePoint) ? 1 : 0)).join('')
    const key = `${isWordCharacter(codePoint)} ${passed}`
    const known = numbers.get(key)
    if (known !== undefined) return known
    numbers.set(key, numbers.size)
    return numbers.size - 1
  }

  return {
    of(codePoint: number, run: Run): number {
      const slot = codePoint & (slots - 1)
      if (codePoints[slot] !== codePoint) {
        charge(run, stepsPerTest * (tests.length + 1))
        codePoints[slot] = codePoint
        classes[slot] = find(codePoint)
      }
      return classes[slot] as number
    },
  }
}

/** A test by a RegExp of one code point. */
const stepsPerTest = 8
