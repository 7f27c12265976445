import type { Issue, IssueCode } from '../error.ts'
import { issuesMax, type JsonObject, pointerOf } from '../validation.ts'

/** The state of the check of one event against the schema of its type. */
export interface Run {
  /** The remaining steps: a step takes some 15 ns, and every loop over client input is charged before it runs. */
  steps: number
  /** The tokens of the JSON Pointer of the value that is being checked. */
  path: (string | number)[]
  issues: Issue[]
  /**
   * Above 0 inside schemas that need not match, such as a branch of a union: issues are not recorded, and the first one
   * ends the check.
   */
  quiet: number
  /**
   * The {@link keyText} of the members or elements of the current value that keywords have evaluated; undefined if no
   * schema asks.
   */
  evaluated: Set<string> | undefined
}

/** Whether a value matches a schema. Adds its issues to `run` unless that is quiet. */
export type Check = (value: unknown, run: Run) => boolean

/** Thrown to end a check whose steps are used up. */
export const outOfSteps = new Error('out of steps')
/** Thrown to end a check that has found as many issues as are reported. */
export const enoughIssues = new Error('enough issues')

export function createRun(steps: number): Run {
  return { steps, path: [], issues: [], quiet: 0, evaluated: undefined }
}

/** Charges steps, before they are taken. */
export function spend(run: Run, steps: number): void {
  run.steps -= steps
  if (run.steps < 0) throw outOfSteps
}

/** Adds an issue of the current value, and returns false. */
export function fail(run: Run, code: IssueCode, message: string): false {
  if (run.quiet === 0) {
    run.issues.push({ code, path: pointerOf(run.path), message })
    if (run.issues.length === issuesMax) throw enoughIssues
  }
  return false
}

/** Checks a member or an element of the current value. */
export function checkChild(check: Check, value: unknown, token: string | number, run: Run): boolean {
  const { evaluated } = run
  run.evaluated = undefined
  run.path.push(token)
  const isValid = check(value, run)
  run.path.pop()
  run.evaluated = evaluated
  if (evaluated !== undefined) addEvaluated(evaluated, token, run)
  return isValid
}

/**
 * A member of a JSON object; undefined if there is none. `Object.hasOwn` would take longer than most checks. JSON has
 * neither functions nor `Object.prototype`, so inherited members (`constructor`, `__proto__`) are recognizable.
 */
export function ownMember(value: JsonObject, name: string): unknown {
  const member = value[name]
  return typeof member === 'function' || member === Object.prototype ? undefined : member
}

export function addEvaluated(evaluated: Set<string>, token: string | number, run: Run): void {
  spend(run, 4)
  evaluated.add(keyText(token))
}

/** Adds the members or elements that an inner schema has evaluated. */
export function mergeEvaluated(outer: Set<string>, inner: ReadonlySet<string>, run: Run): void {
  spend(run, mergeSteps * inner.size)
  for (const key of inner) outer.add(key)
}

/** The cost of adding a member to a set of thousands. */
const mergeSteps = 4

/** Checks the current value without recording issues. */
export function checkQuietly(check: Check, value: unknown, run: Run): boolean {
  const { evaluated } = run
  // the schemas true and false charge nothing themselves
  spend(run, 1)
  if (evaluated !== undefined) run.evaluated = new Set()
  run.quiet++
  const isValid = check(value, run)
  run.quiet--
  if (evaluated !== undefined) {
    if (isValid) mergeEvaluated(evaluated, run.evaluated as Set<string>, run)
    run.evaluated = evaluated
  }
  return isValid
}

/** The names of the members of an object. Charges them. */
export function namesOf(value: object, run: Run): string[] {
  const names = Object.keys(value)
  // V8 sorts the names of an object that it keeps as a hash table
  spend(run, names.length * (names.length > 1000 ? 14 : 2))
  return names
}

/**
 * Makes a member name, index or string safe as a key of a set. V8 hashes integers, and strings of digits, without a
 * seed: a client could send thousands that collide.
 */
export function keyText(token: string | number): string {
  return typeof token === 'string' && !/^[\d=]/.test(token) ? token : `="${token}`
}

/**
 * A text that is the same for equal JSON values only, as a key of a set like {@link keyText}. Charges the size of the
 * value.
 */
export function valueText(value: unknown, run: Run): string {
  if (typeof value !== 'string') return `=${canonicalText(value, run)}`
  spend(run, 1 + (value.length >> 3))
  return keyText(value)
}

function canonicalText(value: unknown, run: Run): string {
  if (typeof value === 'string') {
    spend(run, 5 + (value.length >> 3))
    return JSON.stringify(value)
  }
  spend(run, Number.isInteger(value) ? 5 : 10)
  // 0 and -0 are equal, also as text
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, run)).join(',')}]`
  const names = namesOf(value, run)
  spend(run, sortSteps * names.length)
  const members = names.sort().map((name) => {
    return `${canonicalText(name, run)}:${canonicalText((value as JsonObject)[name], run)}`
  })
  return `{${members.join(',')}}`
}

/** The cost of sorting a name among thousands. */
const sortSteps = 16
