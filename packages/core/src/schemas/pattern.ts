import { createRun, type Run, spend } from './check.ts'

/**
 * A regular expression of ECMA-262 with the flag `u`, as in JSON Schema, in linear time: `RegExp` backtracks, and takes
 * seconds for a short text that nearly matches `^(a+)+$`. The pattern becomes an NFA (Thompson), then a DFA whose
 * states are created on demand. Constructs that are not regular (look-around and back-references) are refused.
 */
export interface Pattern {
  /**
   * Whether a part of `text` matches. Charges `run` for the length, and for created states beyond the first {@link
   * freeSteps} of the pattern.
   */
  test(text: string, run: Run): boolean
}

/** Maximum number of states of an NFA. A counted repetition takes one for each copy. */
const statesMax = 2000
/** Maximum number of DFA states in memory. */
const dfaStatesMax = 1000
const groupDepthMax = 50
/**
 * Steps that each pattern may take to create states before it charges events for them: enough for a usual pattern, so
 * that its first events are not rejected.
 */
const freeSteps = 1_000_000

/** @throws {SyntaxError} for a pattern that is not valid, or that this engine does not support */
export function compilePattern(source: string): Pattern {
  // the code below assumes a valid pattern
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

/** Matches one code point of a valid pattern: a class, an escape, or any other character. */
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
  /** The tests of the states, each once. */
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

  /** Creates the states that match `part` and continue at `next`; returns the first. */
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
      // a state even for a part without states, such as (?:){1000000}
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
  // `.` and classes match several code points
  if (source !== '.' && source.length === String.fromCodePoint(only).length) return (codePoint) => codePoint === only
  const one = new RegExp(`^${source}$`, 'u')
  return (codePoint) => one.test(String.fromCodePoint(codePoint))
}

interface DfaState {
  /** NFA states, sorted. Assertions are followed when the next code point is known. */
  nfa: readonly number[]
  isStart: boolean
  /** Whether the previous code point is a word character. */
  isAfterWord: boolean
  /** The next states by class of the next code point; undefined if not created yet. */
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

  /** Charges for states that are created once and kept. */
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
    // states are sorted, and the match is state 0
    return nfa[0] === 0
  }

  /**
   * The states reachable without a code point, sorted. Assertions that do not hold end the path; undecided ones stay.
   */
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

/** The known context of a position in a text. */
interface Context {
  isStart: boolean
  isAfterWord?: boolean
  isEnd?: boolean
  isBeforeWord?: boolean
}

const atStart: Context = { isStart: true }
const afterStart: Context = { isStart: false }

/** Whether a state waits for the next code point or is the match. */
function staysOpen(state: NfaState, context: Context): boolean {
  if (state.kind === 'assertion') return assertionHolds(state.assertion, context) === undefined
  return state.kind !== 'split'
}

/** Whether an assertion holds; undefined if that is not known yet. */
function assertionHolds(assertion: Assertion, { isStart, isAfterWord, isEnd, isBeforeWord }: Context) {
  if (assertion === '^') return isStart
  if (assertion === '$') return isEnd
  if (isBeforeWord === undefined) return undefined
  return (isAfterWord !== isBeforeWord) === (assertion === '\\b')
}

function isWordCharacter(codePoint: number): boolean {
  return codePoint < 128 && /\w/.test(String.fromCharCode(codePoint))
}

/** The cost of each NFA state when a DFA state is created: a set, a sort and a text. */
const stepsPerState = 16

/** Numbers code points so that those that pass the same tests share a number. */
function createClasses(tests: readonly Test[], charge: (run: Run, steps: number) => void) {
  const numbers = new Map<string, number>()
  /** The last code point of each slot and its class. ASCII code points have slots of their own. */
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

/** The cost of a RegExp test of one code point. */
const stepsPerTest = 8
