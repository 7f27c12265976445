import { createRequire } from 'node:module'
import { isObject, type JsonObject, pointer } from '../validation.ts'
import { createRun, fail, namesOf, ownMember, type Run, spend, valueText } from './check.ts'
import { compilePattern, type Pattern } from './pattern.ts'
import type { Refuse } from './walk-schema.ts'

/** The location of a keyword. */
export interface KeywordContext {
  /** The JSON Pointer of the value of the keyword. */
  at: string
  refuse: Refuse
}

/** The kinds of JSON values that keywords distinguish; `integer` is a `number`. */
export type Kind = 'array' | 'boolean' | 'null' | 'number' | 'object' | 'string'

/** A check of values of one kind. */
export type KindCheck = (value: never, run: Run) => boolean

/** Keywords that check a value without a subschema, by kind (JSON Schema 2020-12 Validation, sections 6 and 7). */
export const assertions: Readonly<
  Record<string, readonly [kind: Kind | 'any', compile: (value: unknown, context: KeywordContext) => KindCheck]>
> = {
  const: ['any', (value) => oneOfValues([value], 'Must be equal to constant.')],
  dependentRequired: ['object', compileDependentRequired],
  enum: ['any', compileEnum],
  exclusiveMaximum: ['number', bound('<', (value, limit) => value < limit)],
  exclusiveMinimum: ['number', bound('>', (value, limit) => value > limit)],
  format: ['string', compileFormat],
  maximum: ['number', bound('<=', (value, limit) => value <= limit)],
  maxItems: ['array', atMost('items', (value: unknown[]) => value.length)],
  maxLength: ['string', atMost('characters', countCharacters)],
  maxProperties: ['object', atMost('properties', countMembers)],
  minimum: ['number', bound('>=', (value, limit) => value >= limit)],
  minItems: ['array', atLeast('items', (value: unknown[]) => value.length)],
  minLength: ['string', atLeast('characters', countCharacters)],
  minProperties: ['object', atLeast('properties', countMembers)],
  multipleOf: ['number', compileMultipleOf],
  pattern: ['string', compilePatternOf],
  required: ['object', compileRequired],
  uniqueItems: ['array', compileUniqueItems],
}

function bound(sign: string, isWithin: (value: number, limit: number) => boolean) {
  return (limit: unknown, { at, refuse }: KeywordContext): KindCheck => {
    if (!isNumber(limit)) return refuse(at, 'expects a number')
    const message = `Must be ${sign} ${limit}.`
    return (value: number, run) => isWithin(value, limit) || fail(run, 'out_of_range', message)
  }
}

/** The size of a value; any number above `enough` for a larger one. */
type Measure<Value> = (value: Value, enough: number, run: Run) => number

function atMost<Value>(items: string, measure: Measure<Value>) {
  return (value: unknown, context: KeywordContext): KindCheck => {
    const limit = parseSize(value, context)
    const message = `Must not have more than ${limit} ${items}.`
    return (each: Value, run) => measure(each, limit, run) <= limit || fail(run, 'too_long', message)
  }
}

function atLeast<Value>(items: string, measure: Measure<Value>) {
  return (value: unknown, context: KeywordContext): KindCheck => {
    const limit = parseSize(value, context)
    const message = `Must not have fewer than ${limit} ${items}.`
    return (each: Value, run) => measure(each, limit, run) >= limit || fail(run, 'too_short', message)
  }
}

export function parseSize(value: unknown, { at, refuse }: KeywordContext): number {
  if (Number.isInteger(value) && (value as number) >= 0) return value as number
  return refuse(at, 'expects an integer of at least 0')
}

/** In code points. */
function countCharacters(text: string, enough: number, run: Run): number {
  // each code point is one or two code units
  if (text.length > 2 * enough) return text.length
  spend(run, text.length >> 3)
  let count = text.length
  for (let i = 0; i < text.length; i++) {
    if ((text.codePointAt(i) as number) <= 0xffff) continue
    count--
    i++
  }
  return count
}

function countMembers(value: JsonObject, _enough: number, run: Run): number {
  return namesOf(value, run).length
}

function compileMultipleOf(divisor: unknown, { at, refuse }: KeywordContext): KindCheck {
  if (!isNumber(divisor) || divisor <= 0) return refuse(at, 'expects a number above 0')
  const message = `Must be multiple of ${divisor}.`
  return (value: number, run) => {
    // the remainder of a huge number takes a loop
    spend(run, Math.abs(value) > Number.MAX_SAFE_INTEGER ? 40 : 4)
    return isMultiple(value, divisor) || fail(run, 'out_of_range', message)
  }
}

function compilePatternOf(source: unknown, context: KeywordContext): KindCheck {
  const pattern = parsePattern(source, context)
  const message = `Must match pattern "${source}".`
  return (text: string, run) => pattern.test(text, run) || fail(run, 'invalid_format', message)
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value)
}

/** Allows a tolerance: 0.3 is a multiple of 0.1, although doubles cannot represent either number exactly. */
function isMultiple(value: number, divisor: number): boolean {
  if (Number.isInteger(value) && (1 / divisor) % 1 === 0) return true
  const rest = Math.abs(value % divisor)
  return Math.min(rest, divisor - rest) < 1e-10
}

function compileUniqueItems(isWanted: unknown, { at, refuse }: KeywordContext): KindCheck {
  if (typeof isWanted !== 'boolean') refuse(at, 'expects true or false')
  return (items: unknown[], run) =>
    !isWanted || isUnique(items, run) || fail(run, 'not_allowed', 'Must not have duplicate items.')
}

function isUnique(items: unknown[], run: Run): boolean {
  spend(run, 4 * items.length)
  const seen = new Set<string>()
  return items.every((item) => seen.size !== seen.add(valueText(item, run)).size)
}

function compileEnum(values: unknown, { at, refuse }: KeywordContext): KindCheck {
  if (!Array.isArray(values) || values.length === 0) refuse(at, 'expects a list of at least one value')
  return oneOfValues(values as unknown[], 'Must be equal to one of the allowed values.')
}

/**
 * The steps of a check of a schema, not of an event. V8 would represent a larger integer by a slower number in all runs.
 */
const stepsUnlimited = 2 ** 30 - 1

function oneOfValues(values: readonly unknown[], message: string): KindCheck {
  const unlimited = createRun(stepsUnlimited)
  const texts = new Set(values.map((value) => valueText(value, unlimited)))
  // most enums are lists of short strings
  const strings = new Set(values.filter((value) => typeof value === 'string'))
  const isSimple = values.every((value) => typeof value !== 'object' || value === null)
  return (value: unknown, run) => {
    if (typeof value === 'string') {
      spend(run, value.length >> 3)
      return strings.has(value) || fail(run, 'not_allowed', message)
    }
    const isCompared = !isSimple || typeof value !== 'object' || value === null
    return (isCompared && texts.has(valueText(value, run))) || fail(run, 'not_allowed', message)
  }
}

export function mapKinds<Value>(map: (kind: Kind) => Value): Record<Kind, Value> {
  const [array, boolean, nulls] = [map('array'), map('boolean'), map('null')]
  return { array, boolean, null: nulls, number: map('number'), object: map('object'), string: map('string') }
}

/** The names of the keyword `type`, and their kinds. */
const kinds: Readonly<Record<string, Kind>> = {
  array: 'array',
  boolean: 'boolean',
  integer: 'number',
  null: 'null',
  number: 'number',
  object: 'object',
  string: 'string',
}

/** Adds the check of `type` to the other checks of a kind. */
type WithType = (kind: Kind, others: readonly KindCheck[]) => readonly KindCheck[]

export function compileType(value: unknown, { at, refuse }: KeywordContext): WithType {
  if (value === undefined) return (_, others) => others
  const names = [value].flat()
  for (const name of names) {
    if (typeof name !== 'string') refuse(at, 'expects the name of a type, or a list of them')
    if (!Object.hasOwn(kinds, name as string)) refuse(at, `is the unknown type "${name}"`)
  }
  if (names.length === 0 || new Set(names).size < names.length) refuse(at, 'expects different names of types')
  const message = `Must be ${names.length === 1 ? '' : 'either '}${names.join(' or ')}.`
  const isNumberAllowed = names.includes('number') ? Number.isFinite : Number.isInteger
  return (kind, others) => {
    if (!names.some((name) => kinds[name as string] === kind)) return [(_, run) => fail(run, 'invalid_type', message)]
    if (kind !== 'number') return others
    // 1e400 is parsed as Infinity
    return [(each: unknown, run) => isNumberAllowed(each) || fail(run, 'invalid_type', message), ...others]
  }
}

function compileRequired(value: unknown, context: KeywordContext): KindCheck {
  const names = parseNames(value, context)
  return (each: JsonObject, run) => requireMembers(each, names, run)
}

function requireMembers(value: JsonObject, names: readonly string[], run: Run): boolean {
  let isValid = true
  spend(run, names.length)
  for (const name of names) {
    if (ownMember(value, name) !== undefined) continue
    if (run.quiet > 0) return false
    run.path.push(name)
    isValid = fail(run, 'required', 'Required.')
    run.path.pop()
  }
  return isValid
}

function compileDependentRequired(value: unknown, { at, ...context }: KeywordContext): KindCheck {
  if (!isObject(value)) context.refuse(at, 'expects an object with lists of names')
  const rules = Object.entries(value as object).map(([name, names]): [string, string[]] => [
    name,
    parseNames(names, { ...context, at: pointer(at, name) }),
  ])
  return (each: JsonObject, run) => {
    spend(run, rules.length)
    const isMet = ([name, names]: [string, string[]]) =>
      ownMember(each, name) === undefined || requireMembers(each, names, run)
    // checks all rules, to report every issue
    return rules.filter((rule) => !isMet(rule)).length === 0
  }
}

function parseNames(value: unknown, { at, refuse }: KeywordContext): string[] {
  if (!Array.isArray(value) || value.some((name) => typeof name !== 'string')) refuse(at, 'expects a list of names')
  const names = value as string[]
  if (new Set(names).size < names.length) refuse(at, 'expects different names')
  return names
}

/** Compiles the source of a pattern. */
export function parsePattern(value: unknown, { at, refuse }: KeywordContext): Pattern {
  if (typeof value !== 'string') return refuse(at, 'expects a regular expression')
  try {
    return compilePattern(value)
  } catch (error) {
    return refuse(at, `is a regular expression that cannot be used: ${(error as Error).message}`)
  }
}

function compileFormat(name: unknown, { at, refuse }: KeywordContext): KindCheck {
  if (typeof name !== 'string') return refuse(at, 'expects the name of a format')
  const isOfFormat = loadFormats().Get(name)
  if (isOfFormat === undefined) return refuse(at, `is the unknown format "${name}"`)
  const message = `Must match format "${name}".`
  return (text: string, run) => {
    // hosts, and some loops of `RegExp`, take much longer for long texts
    spend(run, 8 + text.length * (text.length > 2048 ? 40 : 1))
    return isOfFormat(text) || fail(run, 'invalid_format', message)
  }
}

/** The formats of TypeBox, including those an embedder registered; loaded with the first schema that needs them. */
function loadFormats(): typeof import('typebox/format').Format {
  return createRequire(import.meta.url)('typebox/format').Format
}

const isString = (value: unknown) => typeof value === 'string'
const isBoolean = (value: unknown) => typeof value === 'boolean'

/** Annotation keywords, which check nothing, and the check of their values. */
export const annotations: Readonly<Record<string, (value: unknown) => boolean>> = {
  $comment: isString,
  $schema: isString,
  contentEncoding: isString,
  contentMediaType: isString,
  default: () => true,
  deprecated: isBoolean,
  description: isString,
  examples: Array.isArray,
  readOnly: isBoolean,
  title: isString,
  writeOnly: isBoolean,
}
