import { digestOf } from '@ingest/core'
import { entityTag, listsTag } from '../routes/get-map-content.ts'
import { ifNoneMatch, json } from '../routes/operation.ts'
import type { OpenRoute, ProjectRoute } from '../routes/route.ts'
import { openapiDocument } from './document.ts'

/** The route of the OpenAPI document of `routes`, which is created on the first request. */
export function createOpenapiRoute(routes: () => readonly (ProjectRoute | OpenRoute)[]): OpenRoute {
  let written: { body: Uint8Array; tag: string } | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    operation: {
      operationId: 'getOpenapi',
      tag: 'server',
      summary: 'this document',
      description: 'OpenAPI 3.1. The query is ignored.',
      parameters: [ifNoneMatch],
      responses: {
        200: { description: 'The document.', content: json({ type: 'object' }), headers: ['ETag'] },
        304: { description: 'The entity tag is current.', headers: ['ETag'] },
      },
    },
    async handle({ request }) {
      written ??= write(routes())
      const { body, tag } = written
      const headers = { ETag: tag, 'Cache-Control': 'public, max-age=300' }
      const known = request.headers.values['if-none-match']
      if (known !== undefined && listsTag(known, tag, 'weak')) return { status: 304, headers, body: '' }
      const length = String(body.length)
      return {
        status: 200,
        headers: { ...headers, 'Content-Type': 'application/json', 'Content-Length': length },
        body,
      }
    },
  }
}

function write(routes: readonly (ProjectRoute | OpenRoute)[]): { body: Uint8Array; tag: string } {
  // as bytes, so that it is encoded only once
  const body = Buffer.from(JSON.stringify(openapiDocument(routes)))
  return { body, tag: entityTag(digestOf(body)) }
}
