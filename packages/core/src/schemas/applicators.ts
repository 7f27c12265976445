import type { JsonObject } from '../validation.ts'
import {
  addEvaluated,
  type Check,
  checkChild,
  checkQuietly,
  fail,
  keyText,
  mergeEvaluated,
  namesOf,
  ownMember,
  type Run,
  spend,
} from './check.ts'
import type { Kind, KindCheck } from './keywords.ts'
import type { Pattern } from './pattern.ts'

export const isAnything: Check = () => true

export const isNothing: Check = (_value, run) => fail(run, 'not_allowed', 'Not allowed.')

/** The checks of a schema, by the kind of the value. */
export type ChecksByKind = Readonly<Record<Kind, readonly KindCheck[]>>

/** All the checks of a schema. */
export function allOf({ array, boolean, null: nulls, number, object, string }: ChecksByKind): Check {
  return (value, run) => {
    if (typeof value === 'string') return checkAll(string, value, run)
    if (typeof value === 'number') return checkAll(number, value, run)
    if (typeof value === 'boolean') return checkAll(boolean, value, run)
    if (value === null) return checkAll(nulls, value, run)
    return checkAll(Array.isArray(value) ? array : object, value, run)
  }
}

function checkAll(checks: readonly KindCheck[], value: unknown, run: Run): boolean {
  spend(run, 1 + checks.length)
  let isValid = true
  for (let i = 0; i < checks.length; i++) {
    // these checks are for values of this kind
    if ((checks[i] as Check)(value, run)) continue
    if (run.quiet > 0) return false
    isValid = false
  }
  return isValid
}

/**
 * Checks with `check`, then applies `unevaluated` to the members or elements that no keyword of `check` has evaluated.
 */
export function withUnevaluated(check: Check, unevaluated: Check): Check {
  return (value, run) => {
    const outer = run.evaluated
    const evaluated = new Set<string>()
    run.evaluated = evaluated
    const isValid = check(value, run) && unevaluated(value, run)
    if (outer !== undefined) mergeEvaluated(outer, evaluated, run)
    run.evaluated = outer
    return isValid
  }
}

/** Checks the members or elements of `value` that no keyword has evaluated. */
export function checkUnevaluated(check: Check, value: object, run: Run): boolean {
  const evaluated = run.evaluated as Set<string>
  if (!Array.isArray(value)) {
    return checkEach(namesOf(value, run), run, (name) => checkUnlessEvaluated(name, (value as JsonObject)[name]))
  }
  return checkEach(value, run, (item, i) => checkUnlessEvaluated(i, item))

  function checkUnlessEvaluated(token: string | number, each: unknown): boolean {
    spend(run, 4)
    return evaluated.has(keyText(token)) || checkChild(check, each, token, run)
  }
}

/** Checks all `items`, or in a quiet run those up to the first invalid one. */
function checkEach<Item>(
  items: readonly Item[],
  run: Run,
  isItemValid: (item: Item, index: number) => boolean,
): boolean {
  let isValid = true
  for (let i = 0; i < items.length; i++) {
    if (isItemValid(items[i] as Item, i)) continue
    if (run.quiet > 0) return false
    isValid = false
  }
  return isValid
}

export function anyOf(checks: readonly Check[]): Check {
  return (value, run) => {
    // check all branches if evaluated members matter
    let isValid = false
    for (const check of checks) {
      if (!checkQuietly(check, value, run)) continue
      if (run.evaluated === undefined) return true
      isValid = true
    }
    return isValid || fail(run, 'not_allowed', 'Must match a schema in anyOf.')
  }
}

export function oneOf(checks: readonly Check[]): Check {
  return (value, run) => {
    let matches = 0
    for (const check of checks) if (checkQuietly(check, value, run) && ++matches > 1) break
    return matches === 1 || fail(run, 'not_allowed', 'Must match exactly one schema in oneOf.')
  }
}

export function not(check: Check): Check {
  return (value, run) => {
    const { evaluated } = run
    run.evaluated = undefined
    const isMatch = checkQuietly(check, value, run)
    run.evaluated = evaluated
    return !isMatch || fail(run, 'not_allowed', 'Must not be valid.')
  }
}

export function conditional(condition: Check, whenValid: Check, otherwise: Check): Check {
  return (value, run) => (checkQuietly(condition, value, run) ? whenValid(value, run) : otherwise(value, run))
}

export function dependentSchemas(rules: readonly [string, Check][]): KindCheck {
  return (value: JsonObject, run) => {
    spend(run, rules.length)
    return checkEach(rules, run, ([name, check]) => ownMember(value, name) === undefined || check(value, run))
  }
}

/** Up to this many declared members are looked up in the value; beyond it, the members of the value are iterated. */
const lookUpsMax = 16

/** Checks the declared members and ignores others. */
export function declaredMembers(declared: ReadonlyMap<string, Check>): KindCheck {
  const list = [...declared].map(([name, check]) => ({ name, check }))
  if (list.length > lookUpsMax) return members({ declared, patterns: [], others: undefined, names: undefined })
  return (value: JsonObject, run) => {
    spend(run, list.length)
    let isValid = true
    for (let i = 0; i < list.length; i++) {
      const { name, check } = list[i] as { name: string; check: Check }
      const member = ownMember(value, name)
      if (member === undefined || checkChild(check, member, name, run)) continue
      if (run.quiet > 0) return false
      isValid = false
    }
    return isValid
  }
}

export interface MemberRules {
  declared: ReadonlyMap<string, Check>
  patterns: readonly { pattern: Pattern; check: Check }[]
  /** The check of members that are not declared and match no pattern. */
  others: Check | undefined
  /** The check of the names of all members. */
  names: Check | undefined
}

export function members({ declared, patterns, others, names }: MemberRules): KindCheck {
  return (value: JsonObject, run) => {
    const present = namesOf(value, run)
    spend(run, 2 * present.length)
    return checkEach(present, run, (name) => isNameAllowed(name, run) && isMemberValid(value, name, run))
  }

  function isNameAllowed(name: string, run: Run): boolean {
    if (names === undefined) return true
    run.path.push(name)
    const isAllowed = isNameValid(names, name, run)
    run.path.pop()
    return isAllowed
  }

  function isMemberValid(value: JsonObject, name: string, run: Run): boolean {
    const own = declared.get(name)
    let isValid = own === undefined || checkChild(own, value[name], name, run)
    let isCovered = own !== undefined
    for (const { pattern, check } of patterns) {
      if (!pattern.test(name, run)) continue
      isCovered = true
      if (!checkChild(check, value[name], name, run)) isValid = false
    }
    if (isCovered || others === undefined) return isValid
    return checkChild(others, value[name], name, run)
  }
}

/** Ignores evaluated members, as a name has none. */
function isNameValid(check: Check, name: string, run: Run): boolean {
  const { evaluated } = run
  run.evaluated = undefined
  const isValid = checkQuietly(check, name, run) || fail(run, 'not_allowed', 'The name is not allowed.')
  run.evaluated = evaluated
  return isValid
}

/** Checks the elements of an array: the first ones with `tuple`, the rest with `others`. */
export function elements(tuple: readonly Check[], others: Check | undefined): KindCheck {
  return (value: unknown[], run) => {
    const items = others ? value : value.slice(0, tuple.length)
    spend(run, items.length)
    return checkEach(items, run, (item, i) => checkChild(tuple[i] ?? (others as Check), item, i, run))
  }
}

export function containing(check: Check, min: number, max: number): KindCheck {
  return (value: unknown[], run) => {
    const { evaluated } = run
    spend(run, value.length)
    let count = 0
    for (let i = 0; i < value.length && (count <= max || evaluated); i++) {
      run.evaluated = undefined
      const isMatch = checkQuietly(check, value[i], run)
      run.evaluated = evaluated
      if (!isMatch) continue
      count++
      if (evaluated !== undefined) addEvaluated(evaluated, i, run)
      else if (count >= min && max === Number.POSITIVE_INFINITY) return true
    }
    if (count < min) return fail(run, 'not_allowed', `Must contain at least ${min} valid items.`)
    return count <= max || fail(run, 'not_allowed', `Must contain at most ${max} valid items.`)
  }
}

interface Refinement {
  check(value: unknown): boolean
  error(value: unknown): string
}

/** The functions of `Type.Refine`, which TypeBox keeps in a non-JSON member. */
export function refining(schema: JsonObject): Check[] {
  const refinements = (schema['~refine'] ?? []) as readonly Refinement[]
  return refinements.map(({ check, error }) => (value, run) => {
    return check(value) || fail(run, 'not_allowed', run.quiet > 0 ? '' : error(value))
  })
}
