import { createRequire } from 'node:module'
import type { Static, TSchema } from 'typebox'
import { IngestError, type Issue, type IssueCode } from '../error.ts'
import { issuesMax, type JsonObject, pointer } from '../validation.ts'
import type { IngestEvent } from './event.ts'

/** A TypeBox schema or plain JSON Schema for each event `type` that has one. */
export type EventSchemas = Readonly<Record<string, TSchema>>

/**
 * The type of events under these schemas: a union over their event types, or {@link IngestEvent} without schemas and
 * where the event types are not known. At run time, events of other types are valid too.
 */
export type EventOf<Schemas extends EventSchemas> = string extends keyof Schemas
  ? IngestEvent
  : [keyof Schemas] extends [never]
    ? IngestEvent
    : { [Name in keyof Schemas]: IngestEvent & { type: Name } & Static<Schemas[Name]> }[keyof Schemas]

/**
 * The issues that the schema of an event's `type` finds; none without a schema. `parseWhole` returns the event with all
 * its members if `event` has only the well-known ones.
 */
export type CheckBySchema = (event: JsonObject, parseWhole?: () => JsonObject) => Issue[]

/**
 * Compiles the schemas once. Undefined without any.
 *
 * @throws {IngestError} `invalid-argument` for a schema that does not compile, or that TypeBox would misread
 */
export function compileEventSchemas(schemas: EventSchemas): CheckBySchema | undefined {
  const checks = new Map(Object.entries(schemas).map(([type, schema]) => [type, compile(type, schema)]))
  if (checks.size === 0) return undefined
  return (event, parseWhole = () => event) => {
    const check = checks.get(event.type as string)
    if (check === undefined) return []
    const whole = parseWhole()
    return check.Check(whole) ? [] : schemaIssues(check, whole)
  }
}

type Check = ReturnType<typeof import('typebox/compile').Compile>

/** Loads TypeBox with the first schema: its 700 files cost a process 0.3 s. */
function loadTypeBox() {
  const require = createRequire(import.meta.url)
  const { Compile }: typeof import('typebox/compile') = require('typebox/compile')
  const { Format }: typeof import('typebox/format') = require('typebox/format')
  const { Settings }: typeof import('typebox/system') = require('typebox/system')
  return { Compile, Format, Settings }
}

function compile(type: string, schema: TSchema): Check {
  const mistake = findMistake(schema)
  if (mistake !== undefined) {
    throw new IngestError('invalid-argument', `The schema for events of type "${type}" ${mistake}.`)
  }
  try {
    return loadTypeBox().Compile(schema)
  } catch (cause) {
    throw new IngestError('invalid-argument', `The schema for events of type "${type}" does not compile: ${cause}`, {
      cause,
    })
  }
}

const knownTypes = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
/** Keywords whose value is not a schema. */
const dataKeywords = new Set(['const', 'default', 'enum', 'examples'])

/**
 * A mistake in a schema that TypeBox compiles silently: an unknown `type` or `format` matches every value, and a `$ref`
 * without a target matches none, so that every event of the type would be rejected.
 */
function findMistake(schema: unknown): string | undefined {
  return isNode(schema) ? findMistakeIn(schema, schema, '') : 'is not an object'
}

type Node = Record<string, unknown>

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}

function findMistakeIn(node: Node, root: Node, path: string): string | undefined {
  const { type, format, $ref } = node
  const unknownType = [type].flat().find((name) => typeof name === 'string' && !knownTypes.has(name))
  if (unknownType !== undefined) return `has the unknown type "${unknownType}" at ${path || '/'}`
  if (typeof format === 'string' && !loadTypeBox().Format.Has(format))
    return `has the unknown format "${format}" at ${path || '/'}`
  if (typeof $ref === 'string' && !hasTarget($ref, root)) return `has a $ref without a target at ${path || '/'}`
  for (const [keyword, value] of Object.entries(node)) {
    if (!isNode(value) || dataKeywords.has(keyword)) continue
    const mistake = findMistakeIn(value, root, `${path}/${keyword}`)
    if (mistake !== undefined) return mistake
  }
  return undefined
}

/** Whether a `$ref` has a target in the schema: by JSON Pointer, `$id` or `$anchor`. */
function hasTarget(ref: string, root: Node): boolean {
  if (ref === '#') return true
  if (ref.startsWith('#/')) {
    let node: unknown = root
    for (const step of decodeURIComponent(ref).slice(2).split('/')) {
      if (!isNode(node)) return false
      node = node[step.replaceAll('~1', '/').replaceAll('~0', '~')]
    }
    return node !== undefined
  }
  return hasAnchor(root, ref.replace(/^#/, ''))
}

function hasAnchor(node: Node, name: string): boolean {
  if (node.$id === name || node.$anchor === name || node.$dynamicAnchor === name) return true
  return Object.values(node).some((value) => isNode(value) && hasAnchor(value, name))
}

/** TypeBox stops at 8 errors by default, and one union reports an error for each of its branches. */
const errorsMax = 200

function schemaIssues(check: Check, event: JsonObject): Issue[] {
  const { Settings } = loadTypeBox()
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: errorsMax })
  let errors: SchemaError[]
  try {
    errors = check.Errors(event)
  } finally {
    Settings.Set({ maxErrors })
  }
  const unions = errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')
  const issues = errors.filter((error) => !isBranchOf(error, unions)).flatMap(toIssues)
  // copied, as TypeBox concatenates: V8 keeps such a text as a tree, and issues stay in memory for listRejected
  return JSON.parse(JSON.stringify(issues.slice(0, issuesMax)))
}

interface SchemaError {
  keyword: string
  schemaPath: string
  instancePath: string
  params: object
  message: string
}

/** Whether an error is in a branch of a union, which is reported as one issue. */
function isBranchOf(error: SchemaError, unions: SchemaError[]): boolean {
  return unions.some((union) => error.schemaPath.startsWith(`${union.schemaPath}/${union.keyword}/`))
}

const codes: Record<string, IssueCode> = {
  exclusiveMaximum: 'out_of_range',
  exclusiveMinimum: 'out_of_range',
  format: 'invalid_format',
  maximum: 'out_of_range',
  maxItems: 'too_long',
  maxLength: 'too_long',
  maxProperties: 'too_long',
  minimum: 'out_of_range',
  minItems: 'too_short',
  minLength: 'too_short',
  minProperties: 'too_short',
  multipleOf: 'out_of_range',
  pattern: 'invalid_format',
  type: 'invalid_type',
}

function toIssues({ keyword, instancePath, params, message }: SchemaError): Issue[] {
  if (keyword === 'required' && 'requiredProperties' in params) {
    const names = params.requiredProperties as string[]
    return names.map((name) => ({ code: 'required', path: pointer(instancePath, name), message: 'Required.' }))
  }
  // repeats the errors of each additional property
  if (keyword === 'additionalProperties') return []
  if (keyword === 'boolean') return [{ code: 'not_allowed', path: instancePath, message: 'Not allowed.' }]
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`
  return [{ code: codes[keyword] ?? 'not_allowed', path: instancePath, message: sentence }]
}
