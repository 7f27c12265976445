import { digestOf } from '@ingest/core'
import type { HttpRequest } from '../http/request.ts'
import type { HttpResponse } from '../http/response.ts'
import { entityTag, listsTag } from '../routes/get-map-content.ts'
import { type DescribedRoute, openapiDocument } from './document.ts'

/** `GET /openapi.json`: the document of the routes. It is written on the first request. */
export function createOpenapiRoute(
  describeRoutes: () => readonly DescribedRoute[],
): (context: { request: HttpRequest }) => Promise<HttpResponse> {
  let written: { body: string; tag: string } | undefined
  return async ({ request }) => {
    written ??= write(describeRoutes())
    const { body, tag } = written
    const headers = { ETag: tag, 'Cache-Control': 'public, max-age=300' }
    const known = request.headers.values['if-none-match']
    if (known !== undefined && listsTag(known, tag, 'weak')) return { status: 304, headers, body: '' }
    const length = String(Buffer.byteLength(body))
    return { status: 200, headers: { ...headers, 'Content-Type': 'application/json', 'Content-Length': length }, body }
  }
}

function write(routes: readonly DescribedRoute[]): { body: string; tag: string } {
  const body = JSON.stringify(openapiDocument(routes))
  return { body, tag: entityTag(digestOf(Buffer.from(body))) }
}
