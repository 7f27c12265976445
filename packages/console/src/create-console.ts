import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Encoded, type PageFile, readPage } from './page-files.ts'

/** The part of a request that determines the response; header names are in lower case. */
export interface ConsoleRequest {
  method: string
  /** Without query, fragment and the prefix below which the console is mounted. */
  path: string
  headers: {
    readonly 'accept-encoding'?: string | undefined
    readonly 'if-none-match'?: string | undefined
  }
}

/** A response of the console. */
export interface ConsoleResponse {
  status: number
  headers: Record<string, string>
  /** Empty for HEAD. */
  body: Uint8Array
}

/**
 * Serves the console for `node:http`, Express and other Connect stacks. Paths outside of `/console/` are passed to
 * `next`, or get a 404 without `next`.
 */
export interface ConsoleHandler {
  (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void): void
  /** The same without `node:http`. Undefined for a path outside of `/console/`. */
  respond(request: ConsoleRequest): ConsoleResponse | undefined
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
]

/** Browser features that the page never uses. */
const featuresOff = [
  'accelerometer',
  'autoplay',
  'camera',
  'display-capture',
  'geolocation',
  'gyroscope',
  'magnetometer',
  'microphone',
  'midi',
  'payment',
  'publickey-credentials-get',
  'screen-wake-lock',
  'serial',
  'usb',
]

/** Sent with every response. */
const securityHeaders = {
  'Content-Security-Policy': policy.join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': featuresOff.map((feature) => `${feature}=()`).join(', '),
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
}

const root = '/console/'
const empty = new Uint8Array()

/**
 * The console: a page at `/console/` that shows a project's incoming and stored data. It calls the API at `../v1/`, so
 * serve both below the same prefix:
 *
 * ```ts
 * app.use('/ops', createHandler(ingest), createConsole())
 * ```
 *
 * @throws an `Error` with the code `console-not-built` if the files of the page are missing
 */
export function createConsole(): ConsoleHandler {
  const files = readPage()

  function respond({ method, path, headers }: ConsoleRequest): ConsoleResponse | undefined {
    if (path !== '/console' && !path.startsWith(root)) return undefined
    if (method !== 'GET' && method !== 'HEAD') {
      return textResponse(method, 405, 'This path takes GET, HEAD.\n', { Allow: 'GET, HEAD' })
    }
    // relative, to keep the prefix
    if (path === '/console') return textResponse(method, 308, 'See console/.\n', { Location: 'console/' })
    const file = files.get(path.slice(root.length))
    return file ? fileResponse(file, method, headers) : textResponse(method, 404, 'There is nothing at this path.\n')
  }

  return Object.assign(
    (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => {
      const { method = '', headers } = req
      const response = respond({ method, path: pathOf(req), headers })
      if (!response && next) next()
      else send(res, response ?? textResponse(method, 404, 'There is nothing at this path.\n'))
    },
    { respond },
  )
}

function fileResponse(file: PageFile, method: string, headers: ConsoleRequest['headers']): ConsoleResponse {
  const isGzip = acceptsGzip(headers['accept-encoding'])
  const { bytes, tag } = isGzip ? file.gzip : file.identity
  const caching = {
    ...securityHeaders,
    'Cache-Control': file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    ETag: tag,
    Vary: 'Accept-Encoding',
  }
  if (isCached(headers['if-none-match'], tag)) return { status: 304, headers: caching, body: empty }
  return {
    status: 200,
    headers: {
      ...caching,
      'Content-Type': file.contentType,
      'Content-Length': String(bytes.length),
      ...(isGzip && { 'Content-Encoding': 'gzip' }),
    },
    body: method === 'HEAD' ? empty : bytes,
  }
}

function textResponse(
  method: string,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): ConsoleResponse {
  const bytes = Buffer.from(text)
  return {
    status,
    headers: {
      ...securityHeaders,
      'Cache-Control': 'no-store',
      'Content-Type': 'text/plain; charset=utf-8',
      'Content-Length': String(bytes.length),
      ...headers,
    },
    body: method === 'HEAD' ? empty : bytes,
  }
}

/** Whether gzip has a weight above 0 (RFC 9110 section 12.5.3). */
function acceptsGzip(header = ''): boolean {
  const weights = new Map(
    header.split(',').map((coding) => {
      const [name = '', weight = '1'] = coding.toLowerCase().split(/;\s*q=/)
      return [name.trim(), Number(weight)]
    }),
  )
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0
}

/** The comparison is weak (RFC 9110 section 13.1.2). */
function isCached(list: string | undefined, tag: Encoded['tag']): boolean {
  if (list === undefined) return false
  return list.trim() === '*' || list.split(',').some((each) => each.trim().replace(/^W\//, '') === tag)
}

/** The request target may be a whole URL (RFC 9112 section 3.2.2). */
function pathOf({ url = '' }: IncomingMessage): string {
  if (!url.startsWith('/') && URL.canParse(url)) return new URL(url).pathname
  return url.split('?', 1)[0] ?? ''
}

function send(res: ServerResponse, { status, headers, body }: ConsoleResponse): void {
  res.writeHead(status, headers)
  res.end(body)
}
