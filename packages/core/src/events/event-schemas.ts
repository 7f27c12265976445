import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Settings } from 'typebox/system'
import { IngestError } from '../error.ts'
import { type Issue, type IssueCode, issuesMax, pointer } from '../validation.ts'
import type { IngestEvent, JsonObject } from './event.ts'
import { schemaFault } from './schema-fault.ts'

/** A TypeBox schema or plain JSON Schema for each event `type` that has one. */
export type EventSchemas = Readonly<Record<string, TSchema>>

/**
 * The events that schemas describe: a union over their types. {@link IngestEvent} where there are no schemas, or where
 * their types are not known. At run time events of further types are stored, too.
 */
export type EventOf<Schemas extends EventSchemas> = string extends keyof Schemas
  ? IngestEvent
  : [keyof Schemas] extends [never]
    ? IngestEvent
    : { [Name in keyof Schemas]: IngestEvent & { type: Name } & Static<Schemas[Name]> }[keyof Schemas]

/**
 * What an embedder's own schema finds wrong with an event; nothing for a `type` without a schema. `wholeOf` gives the
 * event with all its members where `event` has only those that are well-known.
 */
export type CheckBySchema = (event: JsonObject, wholeOf?: () => JsonObject) => Issue[]

/**
 * Compiles the schemas once, so that checking costs little more than looking. Undefined without any.
 *
 * @throws {IngestError} `invalid-argument` for a schema that does not compile.
 */
export function compileEventSchemas(schemas: EventSchemas): CheckBySchema | undefined {
  const checks = new Map(Object.entries(schemas).map(([type, schema]) => [type, compile(type, schema)]))
  if (checks.size === 0) return undefined
  return (event, wholeOf = () => event) => {
    const check = checks.get(event.type as string)
    if (check === undefined) return []
    const whole = wholeOf()
    return check.Check(whole) ? [] : schemaIssues(check, whole)
  }
}

type Check = ReturnType<typeof Compile>

function compile(type: string, schema: TSchema): Check {
  const fault = schemaFault(schema)
  if (fault !== undefined)
    throw new IngestError('invalid-argument', `The schema for events of type "${type}" ${fault}.`)
  try {
    return Compile(schema)
  } catch (cause) {
    throw new IngestError('invalid-argument', `The schema for events of type "${type}" does not compile: ${cause}`, {
      cause,
    })
  }
}

/** TypeBox stops at 8 errors by default, and a union alone reports one for each of its branches. */
const errorsMax = 200

function schemaIssues(check: Check, event: JsonObject): Issue[] {
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: errorsMax })
  let errors: SchemaError[]
  try {
    errors = check.Errors(event)
  } finally {
    Settings.Set({ maxErrors })
  }
  const unions = errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')
  const issues = errors.filter((error) => !isBranchOf(error, unions)).flatMap(issuesOf)
  return issues.slice(0, issuesMax)
}

interface SchemaError {
  keyword: string
  schemaPath: string
  instancePath: string
  params: object
  message: string
}

/** A failed union says so once; what each of its branches would have wanted is noise. */
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

function issuesOf({ keyword, instancePath, params, message }: SchemaError): Issue[] {
  if (keyword === 'required' && 'requiredProperties' in params) {
    const names = params.requiredProperties as string[]
    return names.map((name) => ({ code: 'required', path: pointer(instancePath, name), message: 'Required.' }))
  }
  // only sums up what is reported for each further property
  if (keyword === 'additionalProperties') return []
  if (keyword === 'boolean') return [{ code: 'not_allowed', path: instancePath, message: 'Not allowed.' }]
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`
  return [{ code: codes[keyword] ?? 'not_allowed', path: instancePath, message: sentence }]
}
