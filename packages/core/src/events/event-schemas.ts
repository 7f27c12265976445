import type { Static, TSchema } from 'typebox'
import { IngestError, type Issue } from '../error.ts'
import { type Check, createRun, enoughIssues, outOfSteps } from '../schemas/check.ts'
import { compileSchema } from '../schemas/compile-schema.ts'
import { isObject, type JsonObject, pointerOf } from '../validation.ts'
import type { IngestEvent } from './event.ts'

/** A TypeBox schema or plain JSON Schema for each event `type` that has one. */
export type EventSchemas = Readonly<Record<string, TSchema>>

/**
 * The type of events under these schemas: a union over their event types. It is {@link IngestEvent} without schemas and
 * where the event types are not known. At run time, events of other types are valid too.
 */
export type EventOf<Schemas extends EventSchemas> = string extends keyof Schemas
  ? IngestEvent
  : [keyof Schemas] extends [never]
    ? IngestEvent
    : { [Name in keyof Schemas]: IngestEvent & { type: Name } & Static<Schemas[Name]> }[keyof Schemas]

/**
 * The issues that the schema of an event's `type` finds; none if the type has no schema. `bytes` is the size of the
 * event, which bounds the work; `parseWhole` returns the event with all its members if `event` has only the well-known
 * ones.
 *
 * @throws {IngestError} `internal-error` if a function of the schema throws
 */
export type CheckBySchema = (event: JsonObject, bytes: number, parseWhole?: () => JsonObject) => Issue[]

/**
 * Compiles each schema to a function with bounded work. Undefined if there are none.
 *
 * @throws {IngestError} `invalid-argument` for a mistake in a schema, with its JSON Pointer
 */
export function compileEventSchemas(schemas: EventSchemas): CheckBySchema | undefined {
  const checks = new Map(Object.entries(schemas).map(([type, schema]) => [type, compile(type, schema)]))
  if (checks.size === 0) return undefined
  return (event, bytes, parseWhole = () => event) => {
    const type = event.type as string
    const check = checks.get(type)
    return check === undefined ? [] : issuesBy(check, parseWhole(), { type, bytes })
  }
}

function compile(type: string, schema: unknown): Check {
  const name = `The schema for events of type "${type}"`
  if (!isObject(schema)) throw new IngestError('invalid-argument', `${name} is not an object.`)
  return compileSchema(schema, (at, mistake) => {
    throw new IngestError('invalid-argument', `${name}: #${at} ${mistake}.`)
  })
}

/** The steps of a check: `stepsMin`, and more for each byte of the event. A full batch takes some 30 ms at most. */
const stepsMin = 10_000
const stepsPerByte = 4

function issuesBy(check: Check, event: JsonObject, { type, bytes }: { type: string; bytes: number }): Issue[] {
  const run = createRun(stepsMin + stepsPerByte * bytes)
  try {
    check(event, run)
  } catch (cause) {
    if (cause === outOfSteps) {
      run.issues.push({ code: 'too_complex', path: pointerOf(run.path), message: tooComplex })
    } else if (cause !== enoughIssues) {
      const message = `A function in the schema for events of type "${type}" threw an error: ${cause}`
      throw new IngestError('internal-error', message, { cause })
    }
  }
  return run.issues
}

const tooComplex = 'The check by the schema of this type takes too many steps: send less here, or simplify the schema.'
