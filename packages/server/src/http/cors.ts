import { IngestError } from '@ingest/core'
import type { HttpRequest } from './request.ts'
import type { HttpResponse } from './response.ts'

/** How long a browser may cache a preflight, in seconds: Chromium's maximum. */
const maxAgeSeconds = 7200

const allowedHeaders = [
  'Authorization',
  'Baggage',
  'Content-Encoding',
  'Content-Type',
  'If-Match',
  'If-None-Match',
  'If-Range',
  'Range',
  'Traceparent',
  'Tracestate',
  'X-Ingestion-Key',
  'X-Project-Id',
  'X-Request-Id',
].join(', ')

const exposedHeaders = [
  'Accept-Ranges',
  'Content-Range',
  'ETag',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
].join(', ')

/** Cross-origin requests of web pages (Fetch Standard, section 3.3), without cookies. */
export interface Cors {
  isPreflight(request: HttpRequest): boolean
  /** The response to a preflight for a path with these methods. */
  preflightResponse(methods: string): HttpResponse
  /** Adds the headers that let the page read a response, whatever its status. */
  addHeaders(request: Pick<HttpRequest, 'headers'>, headers: Record<string, string>): void
}

/**
 * Parses the allowed origins.
 *
 * @throws {IngestError} `invalid-argument` for text that is not an origin
 */
export function createCors(origins: readonly string[]): Cors {
  checkOrigins(origins)
  const isPublic = origins.includes('*')
  return {
    isPreflight({ method, headers: { values } }) {
      return (
        method === 'OPTIONS' && values.origin !== undefined && values['access-control-request-method'] !== undefined
      )
    },
    preflightResponse: (methods) => ({
      status: 204,
      headers: {
        'Access-Control-Allow-Methods': methods,
        'Access-Control-Allow-Headers': allowedHeaders,
        'Access-Control-Max-Age': String(maxAgeSeconds),
      },
      body: '',
    }),
    addHeaders(request, headers) {
      const { origin = '' } = request.headers.values
      if (!isPublic) headers.Vary = headers.Vary === undefined ? 'Origin' : `${headers.Vary}, Origin`
      if (!isPublic && !origins.includes(origin)) return
      headers['Access-Control-Allow-Origin'] = isPublic ? '*' : origin
      headers['Access-Control-Expose-Headers'] = exposedHeaders
    },
  }
}

function checkOrigins(origins: readonly string[]): void {
  if (origins.length === 1 && origins[0] === '*') return
  const isOrigin = (text: string) => !text.includes('*') && URL.canParse(text) && new URL(text).origin === text
  const wrong = origins.find((origin) => !isOrigin(origin))
  if (wrong === undefined) return
  const message = `cors takes origins such as https://app.example.com, or * alone, not ${JSON.stringify(wrong)}.`
  throw new IngestError('invalid-argument', message)
}
