import { type JsonObject, pointer } from '../validation.ts'
import {
  allOf,
  anyOf,
  checkUnevaluated,
  conditional,
  containing,
  declaredMembers,
  dependentSchemas,
  elements,
  isAnything,
  isNothing,
  members,
  not,
  oneOf,
  refining,
  withUnevaluated,
} from './applicators.ts'
import type { Check } from './check.ts'
import {
  annotations,
  assertions,
  compileType,
  type Kind,
  type KindCheck,
  mapKinds,
  parsePattern,
  parseSize,
} from './keywords.ts'
import { applicators, type Refuse, type Schema, walkSchema } from './walk-schema.ts'

type Schemas = Readonly<Record<string, Schema>>

/**
 * Compiles a schema of JSON Schema 2020-12 to a function. Refuses the schema if a keyword is unknown, invalid or has no
 * effect.
 */
export function compileSchema(root: JsonObject, refuse: Refuse): Check {
  const { nodes, targets } = walkSchema(root, refuse)
  const checks = new Map<JsonObject, Check>()
  // inner schemas come later in the list, and are compiled first
  for (const { schema, at } of [...nodes].reverse()) checks.set(schema, compileNode(schema, at))
  return checkOf(root)

  function checkOf(schema: Schema): Check {
    if (schema === true) return isAnything
    if (schema === false) return isNothing
    // a reference to a schema that is not compiled yet, or to an outer one, is resolved when it is used
    return checks.get(schema) ?? ((value, run) => (checks.get(schema) as Check)(value, run))
  }

  function compileNode(schema: JsonObject, at: string): Check {
    refuseKeywords(schema, at, refuse)
    const context = (keyword: string) => ({ at: pointer(at, keyword), refuse })
    const found: [Kind | 'any', KindCheck][] = []
    for (const [keyword, [kind, compile]] of Object.entries(assertions)) {
      if (schema[keyword] !== undefined) found.push([kind, compile(schema[keyword], context(keyword))])
    }
    for (const check of [...compileInPlace(schema), ...refining(schema)]) found.push(['any', check])
    if (schema.dependentSchemas) found.push(['object', dependentSchemas(entries(schema.dependentSchemas as Schemas))])
    for (const check of compileMembers(schema, at)) found.push(['object', check])
    for (const check of compileElements(schema, at)) found.push(['array', check])
    const withType = compileType(schema.type, context('type'))
    const checksOf = (kind: Kind) => found.filter(([of]) => of === kind || of === 'any').map(([, check]) => check)
    const check = allOf(mapKinds((kind) => withType(kind, checksOf(kind))))
    const unevaluated = compileUnevaluated(schema)
    return unevaluated === undefined ? check : withUnevaluated(check, unevaluated)
  }

  /** Compiles the keywords whose schemas apply to the same value. */
  function compileInPlace(schema: JsonObject): Check[] {
    const lists = schema as Readonly<Record<string, Schema[]>>
    const found: Check[] = []
    const target = targets.get(schema)
    if (target !== undefined) found.push(checkOf(target))
    if (lists.allOf) found.push(...lists.allOf.map(checkOf))
    if (lists.anyOf) found.push(anyOf(lists.anyOf.map(checkOf)))
    if (lists.oneOf) found.push(oneOf(lists.oneOf.map(checkOf)))
    if (schema.not !== undefined) found.push(not(checkOf(schema.not as Schema)))
    if (schema.if !== undefined) {
      const [condition, whenValid, otherwise] = [schema.if, schema.then ?? true, schema.else ?? true] as Schema[]
      found.push(conditional(checkOf(condition as Schema), checkOf(whenValid as Schema), checkOf(otherwise as Schema)))
    }
    return found
  }

  function compileMembers(schema: JsonObject, at: string): KindCheck[] {
    const { additionalProperties, propertyNames } = schema
    const declared = new Map(entries((schema.properties ?? {}) as Schemas))
    const patterns = entries((schema.patternProperties ?? {}) as Schemas).map(([source, check]) => {
      const place = pointer(pointer(at, 'patternProperties'), source)
      return { pattern: parsePattern(source, { at: place, refuse }), check }
    })
    const others = additionalProperties === undefined ? undefined : checkOf(additionalProperties as Schema)
    const names = propertyNames === undefined ? undefined : checkOf(propertyNames as Schema)
    if (patterns.length > 0 || others || names) return [members({ declared, patterns, others, names })]
    return declared.size === 0 ? [] : [declaredMembers(declared)]
  }

  function compileElements(schema: JsonObject, at: string): KindCheck[] {
    const { prefixItems = [], items, additionalItems, contains, minContains = 1, maxContains } = schema
    const found: KindCheck[] = []
    // a tuple in the syntax of older drafts and TypeBox
    const isOldTuple = Array.isArray(items)
    const tuple = (isOldTuple ? items : prefixItems) as Schema[]
    const others = (isOldTuple ? additionalItems : items) as Schema | undefined
    if (tuple.length > 0 || others !== undefined) {
      found.push(elements(tuple.map(checkOf), others === undefined ? undefined : checkOf(others)))
    }
    if (contains === undefined) return found
    const min = parseSize(minContains, { at: pointer(at, 'minContains'), refuse })
    const max =
      maxContains === undefined
        ? Number.POSITIVE_INFINITY
        : parseSize(maxContains, { at: pointer(at, 'maxContains'), refuse })
    return [...found, containing(checkOf(contains as Schema), min, max)]
  }

  function compileUnevaluated({ unevaluatedProperties, unevaluatedItems }: JsonObject): Check | undefined {
    if (unevaluatedProperties === undefined && unevaluatedItems === undefined) return undefined
    const member = unevaluatedProperties === undefined ? undefined : checkOf(unevaluatedProperties as Schema)
    const element = unevaluatedItems === undefined ? undefined : checkOf(unevaluatedItems as Schema)
    return (value, run) => {
      if (typeof value !== 'object' || value === null) return true
      const check = Array.isArray(value) ? element : member
      return check === undefined || checkUnevaluated(check, value, run)
    }
  }

  function entries(schemas: Schemas): [string, Check][] {
    return Object.entries(schemas).map(([name, schema]) => [name, checkOf(schema)])
  }
}

/** Keywords that have no effect without another one. */
const companions: Readonly<Record<string, string>> = {
  additionalItems: 'items',
  else: 'if',
  maxContains: 'contains',
  minContains: 'contains',
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: 'if',
}

/** Drafts in which keywords of the same name have the same meaning. */
const drafts = /^https?:\/\/json-schema\.org\/(?:draft\/20(?:20-12|19-09)|draft-07)\/schema#?$/

/** Refuses keywords that are unknown, or without effect. */
function refuseKeywords(schema: JsonObject, at: string, refuse: Refuse): void {
  for (const [keyword, value] of Object.entries(schema)) {
    const here = pointer(at, keyword)
    if (value === undefined || isKnown(keyword)) continue
    const isAnnotation = Object.hasOwn(annotations, keyword) ? annotations[keyword] : undefined
    if (isAnnotation === undefined) refuse(here, `is not a keyword that is supported${hintOf(keyword)}`)
    if (!isAnnotation?.(value)) refuse(here, 'has a value of the wrong type')
  }
  const { $schema, items } = schema
  if (typeof $schema === 'string' && !drafts.test($schema)) {
    refuse(pointer(at, '$schema'), 'names another version than https://json-schema.org/draft/2020-12/schema')
  }
  for (const [keyword, companion] of Object.entries(companions)) {
    if (schema[keyword] === undefined || schema[companion] !== undefined) continue
    refuse(pointer(at, keyword), `has no effect without "${companion}"`)
  }
  if (schema.additionalItems !== undefined && !Array.isArray(items)) {
    refuse(pointer(at, 'additionalItems'), 'has no effect without a list in "items"')
  }
}

function isKnown(keyword: string): boolean {
  if (Object.hasOwn(assertions, keyword) || Object.hasOwn(applicators, keyword)) return true
  // keywords of TypeBox, and extensions as in OpenAPI
  return /^~|^x-|^(?:\$id|\$anchor|\$ref|type|minContains|maxContains)$/.test(keyword)
}

function hintOf(keyword: string): string {
  if (keyword === 'dependencies') return ': use dependentRequired or dependentSchemas'
  if (keyword === 'id') return ': use $id'
  if (keyword === 'nullable') return ': use "null" in type'
  return ''
}
