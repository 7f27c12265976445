import { createIngest, openMemoryStore } from '@ingest/core'
import { toFetchHandler } from '../../src/fetch-handler.ts'

export type Schema = Record<string, unknown>

interface Reference {
  $ref: string
}

/** A response of the document, its references resolved. */
export interface DocumentedResponse {
  headers: Record<string, { required?: boolean; schema: Schema }>
  content?: Record<string, { schema?: Schema; examples?: Record<string, { value: unknown }>; example?: unknown }>
}

export interface DocumentedOperation {
  parameters: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema?: Schema }> }
  responses: Record<string, DocumentedResponse>
}

export interface OpenapiDocument {
  paths: Record<string, Record<string, DocumentedOperation>>
  components: { responses: Record<string, DocumentedResponse>; schemas: Record<string, Schema> }
}

/** The document as it is served. */
export async function fetchDocument(): Promise<unknown> {
  const handler = toFetchHandler(createIngest({ store: openMemoryStore() }))
  return (await handler(new Request('http://localhost/openapi.json'))).json()
}

/** The document with every reference outside of schemas replaced by its target. */
export function resolveReferences(document: unknown): OpenapiDocument {
  return resolve(document) as OpenapiDocument

  function resolve(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(resolve)
    if (typeof value !== 'object' || value === null) return value
    if (isReference(value) && !value.$ref.startsWith('#/components/schemas/')) return resolve(targetOf(value))
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolve(each)]))
  }

  function targetOf({ $ref }: Reference): unknown {
    const path = $ref.replace('#/', '').split('/')
    return path.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document)
  }
}

function isReference(value: object): value is Reference {
  return '$ref' in value && typeof value.$ref === 'string'
}
