import { readFile } from 'node:fs/promises'
import { type EventSchemas, IngestError } from '@ingest/core'
import { compileEventSchemas, type JsonObject, knownFields, memberNames } from '@ingest/core/internal'
import { Option } from 'commander'
import { parsePath } from '../options.ts'

export function schemasOption(): Option {
  return new Option('--schemas <file>', 'JSON Schemas of events by their type: { "round.end": { … } }').argParser(
    parsePath,
  )
}

/**
 * Reads and checks the event schemas of a file.
 *
 * @throws {IngestError} `invalid-argument`, with the name of the file, for an unreadable file or an invalid schema
 */
export async function readSchemas(file: string): Promise<EventSchemas> {
  const bytes = await readFile(file).catch((cause) => {
    throw new IngestError('invalid-argument', `The event schemas cannot be read: ${cause.message}.`, { cause })
  })
  try {
    return parseSchemas(bytes)
  } catch (error) {
    throw new IngestError('invalid-argument', `${file}: ${(error as Error).message}`, { cause: error })
  }
}

const typeBytesMax = knownFields.find(({ name }) => name === 'type')?.bytesMax ?? 0

/** @throws {Error} for text that is not JSON, and for schemas that cannot be applied to events */
function parseSchemas(bytes: Buffer): EventSchemas {
  const schemas: unknown = JSON.parse(bytes.toString())
  if (!isObject(schemas)) throw new Error('Expected an object of JSON Schemas by event type: { "<type>": { … } }.')
  const types = new Set<string>()
  for (const type of memberNames(bytes)) {
    if (types.has(type)) throw new Error(`The event type ${quote(type)} is there twice.`)
    if (type === '' || Buffer.byteLength(type) > typeBytesMax)
      throw new Error(`No event has the type ${quote(type)}: a type has 1 to ${typeBytesMax} bytes.`)
    types.add(type)
  }
  compileEventSchemas(schemas as EventSchemas)
  for (const [type, schema] of Object.entries(schemas as Record<string, JsonObject>)) {
    if (schema.type !== undefined && ![schema.type].flat().includes('object'))
      throw new Error(`The schema for events of type ${quote(type)}: #/type must allow "object", which each event is.`)
  }
  return schemas as EventSchemas
}

const shownCharactersMax = 40

function quote(type: string): string {
  return JSON.stringify(type.length > shownCharactersMax ? `${type.slice(0, shownCharactersMax)}…` : type)
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
