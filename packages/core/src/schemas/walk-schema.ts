import { isObject, type JsonObject, pointer } from '../validation.ts'

/** Reports a mistake in a schema. `at` is a JSON Pointer. */
export type Refuse = (at: string, mistake: string) => never

/** A subschema: an object or a boolean. */
export type Schema = JsonObject | boolean

/** A schema that is an object, and its location. */
export interface SchemaNode {
  schema: JsonObject
  /** A JSON Pointer from the root. */
  at: string
  /** The base URI of its `$ref`: its own `$id` or that of an enclosing schema. */
  base: string
}

/** A schema with all of its subschemas, by {@link walkSchema}. */
export interface WalkedSchema {
  nodes: readonly SchemaNode[]
  /** The target of the `$ref` of each schema that has one. */
  targets: ReadonlyMap<JsonObject, Schema>
}

/** Keywords whose values hold schemas, and whether these apply to the same value as the enclosing schema. */
export const applicators: Readonly<Record<string, { holds: 'schema' | 'list' | 'members'; isInPlace?: true }>> = {
  $defs: { holds: 'members' },
  additionalItems: { holds: 'schema' },
  additionalProperties: { holds: 'schema' },
  allOf: { holds: 'list', isInPlace: true },
  anyOf: { holds: 'list', isInPlace: true },
  contains: { holds: 'schema' },
  contentSchema: { holds: 'schema' },
  definitions: { holds: 'members' },
  dependentSchemas: { holds: 'members', isInPlace: true },
  else: { holds: 'schema', isInPlace: true },
  if: { holds: 'schema', isInPlace: true },
  items: { holds: 'schema' },
  not: { holds: 'schema', isInPlace: true },
  oneOf: { holds: 'list', isInPlace: true },
  patternProperties: { holds: 'members' },
  prefixItems: { holds: 'list' },
  properties: { holds: 'members' },
  propertyNames: { holds: 'schema' },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { holds: 'schema', isInPlace: true },
  unevaluatedItems: { holds: 'schema' },
  unevaluatedProperties: { holds: 'schema' },
}

/** Maximum nesting depth of schemas, and maximum length of a chain of schemas that apply to the same value. */
export const schemaDepthMax = 32
/** Maximum total number of subschemas. */
export const schemasMax = 10_000

/**
 * Finds the subschemas of a schema and the targets of their references. Refuses invalid subschemas, references without
 * a target or in a loop, and more than {@link schemaDepthMax} levels, because a check recurses.
 */
export function walkSchema(root: Schema, refuse: Refuse): WalkedSchema {
  const nodes: SchemaNode[] = []
  const inPlace = new Map<JsonObject, { schema: Schema; at: string }[]>()
  const byUri = new Map<string, SchemaNode>()
  const byPointer = new Map<string, SchemaNode>()
  const booleans = new Map<string, boolean>()
  visit(root, '', rootUri, 0)
  const targets = new Map(nodes.filter(({ schema }) => schema.$ref !== undefined).map(resolve))
  refuseLoops(nodes, inPlace, refuse)
  return { nodes, targets }

  function visit(schema: unknown, at: string, outerBase: string, depth: number): void {
    if (typeof schema !== 'boolean' && !isObject(schema)) refuse(at, 'expects a schema: an object, true or false')
    if (depth > schemaDepthMax) refuse(at, `has more than ${schemaDepthMax} schemas inside each other`)
    if (nodes.length === schemasMax) refuse(at, `has more than ${schemasMax} schemas`)
    if (typeof schema === 'boolean') {
      booleans.set(at, schema)
      return
    }
    const node = { schema, at, base: baseOf(schema, at, outerBase) }
    nodes.push(node)
    byPointer.set(at, node)
    register(node)
    const parts: { schema: Schema; at: string }[] = []
    for (const [keyword, { holds, isInPlace }] of Object.entries(applicators)) {
      if (schema[keyword] === undefined) continue
      const inside = partsOf(schema[keyword], pointer(at, keyword), keyword, holds)
      if (isInPlace) parts.push(...inside)
      for (const part of inside) visit(part.schema, part.at, node.base, depth + 1)
    }
    inPlace.set(schema, parts)
  }

  function partsOf(value: unknown, at: string, keyword: string, holds: 'schema' | 'list' | 'members') {
    // a tuple in the syntax of older drafts and TypeBox
    const isList = holds === 'list' || (keyword === 'items' && Array.isArray(value))
    if (!isList && holds === 'schema') return [{ schema: value as Schema, at }]
    const expected = isList ? 'a list of schemas' : 'an object with schemas'
    if (isList ? !Array.isArray(value) : !isObject(value)) refuse(at, `expects ${expected}`)
    if (holds === 'list' && (value as unknown[]).length === 0) refuse(at, 'expects at least one schema')
    return Object.entries(value as object).map(([key, schema]) => ({ schema: schema as Schema, at: pointer(at, key) }))
  }

  function baseOf({ $id }: JsonObject, at: string, outerBase: string): string {
    if ($id === undefined) return outerBase
    const base = toUri($id, outerBase, pointer(at, '$id')).replace(/#$/, '')
    if (base.includes('#')) refuse(pointer(at, '$id'), 'expects a URI without a fragment')
    return base
  }

  function register(node: SchemaNode): void {
    const { schema, at, base } = node
    const { $id, $anchor } = schema
    if ($id !== undefined || at === '') add(base, node)
    if ($anchor === undefined) return
    if (typeof $anchor !== 'string' || !/^[A-Za-z_][-A-Za-z0-9._]*$/.test($anchor)) {
      refuse(pointer(at, '$anchor'), 'expects a name of letters, digits, "-", "." and "_"')
    }
    add(`${base}#${$anchor}`, node)
  }

  function add(uri: string, node: SchemaNode): void {
    const other = byUri.get(uri)
    // one object may occur in several places
    if (other !== undefined && other.schema !== node.schema) refuse(node.at, 'has the $id or $anchor of another schema')
    byUri.set(uri, node)
  }

  function resolve({ schema, at, base }: SchemaNode): [JsonObject, Schema] {
    const here = pointer(at, '$ref')
    const uri = toUri(schema.$ref, base, here).replace(/#$/, '')
    const target = byUri.get(uri)?.schema ?? follow(uri)
    if (target === undefined) refuse(here, 'refers to no schema of this document')
    if (typeof target === 'object') inPlace.get(schema)?.push({ schema: target, at: here })
    return [schema, target]
  }

  /** The schema at the JSON Pointer of a URI. */
  function follow(uri: string): Schema | undefined {
    const [resource = '', fragment = ''] = uri.split('#')
    const start = byUri.get(resource)
    if (start === undefined || !fragment.startsWith('/')) return undefined
    const path = start.at + decode(fragment)
    return byPointer.get(path)?.schema ?? booleans.get(path)
  }

  function toUri(value: unknown, base: string, at: string): string {
    if (typeof value !== 'string' || !URL.canParse(value, base)) refuse(at, 'expects a URI reference')
    return new URL(value as string, base).href
  }
}

const rootUri = 'schema:///'

function decode(fragment: string): string {
  try {
    return decodeURIComponent(fragment)
  } catch {
    return fragment
  }
}

/** Refuses schemas that apply to one value in a loop, or in a chain longer than {@link schemaDepthMax}. */
function refuseLoops(
  nodes: readonly SchemaNode[],
  inPlace: ReadonlyMap<JsonObject, readonly { schema: Schema; at: string }[]>,
  refuse: Refuse,
): void {
  const open = new Set<Schema>()
  const heights = new Map<Schema, number>()
  for (const { schema } of nodes) height(schema)

  function height(schema: Schema): number {
    const known = heights.get(schema)
    if (known !== undefined || typeof schema === 'boolean') return known ?? 0
    open.add(schema)
    let most = 0
    for (const part of inPlace.get(schema) ?? []) {
      if (open.has(part.schema)) refuse(part.at, 'is a loop of references: the schema would apply to one value forever')
      if (open.size > schemaDepthMax) refuse(part.at, tooMany)
      most = Math.max(most, 1 + height(part.schema))
      if (most > schemaDepthMax) refuse(part.at, tooMany)
    }
    open.delete(schema)
    heights.set(schema, most)
    return most
  }
}

const tooMany = `applies more than ${schemaDepthMax} schemas to one value after each other`
