import { readFile } from 'node:fs/promises'
import { type EventSchemas, IngestError } from '@ingest/core'
import { Option } from 'commander'
import { parsePath } from '../options.ts'

/** `--schemas <file>`. */
export function schemasOption(): Option {
  return new Option('--schemas <file>', 'JSON Schemas of events by their type: { "round.end": { … } }').argParser(
    parsePath,
  )
}

/**
 * Reads the event schemas of a file. They are not compiled.
 *
 * @throws {IngestError} `invalid-argument` for a file that cannot be read, or that is not a JSON object of objects
 */
export async function readSchemas(file: string): Promise<EventSchemas> {
  const schemas = await readFile(file, 'utf8').then(JSON.parse).catch(unreadable)
  if (isObject(schemas) && Object.values(schemas).every(isObject)) return schemas as EventSchemas
  throw new IngestError(
    'invalid-argument',
    `${file} does not hold event schemas: expected { "<type>": { JSON Schema } }.`,
  )

  function unreadable(error: Error): never {
    throw new IngestError('invalid-argument', `The event schemas cannot be read: ${error.message}.`, { cause: error })
  }
}

/**
 * Calls `compile`, which compiles the schemas of a file.
 *
 * @throws {IngestError} `invalid-argument` for a mistake in one of them, with the name of the file
 */
export function compileSchemasOf<Result>(file: string | undefined, compile: () => Result): Result {
  try {
    return compile()
  } catch (cause) {
    if (file === undefined || !(cause instanceof IngestError) || cause.code !== 'invalid-argument') throw cause
    throw new IngestError('invalid-argument', `${file}: ${cause.message}`, { cause })
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
