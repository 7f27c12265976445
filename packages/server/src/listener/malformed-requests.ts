import { type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { IngestError } from '@ingest/core'
import { discardMs, sendResponse } from '../http/send-response.ts'
import { headersMax, tooManyHeaders } from '../node-handler.ts'
import type { Router } from '../router.ts'
import type { Traffic } from './traffic.ts'

/** Responds to requests that Node cannot parse, after the responses to earlier requests of the connection. */
export function refuseMalformedRequests(server: Server, traffic: Traffic, router: Router): void {
  const refused = new WeakSet<Duplex>()
  // before Node passes the error to 'clientError': without a handshake no response is possible
  server.prependListener('tlsClientError', (_error, socket: Duplex) => {
    refused.add(socket)
    socket.destroy()
  })
  server.on('clientError', (error: ParserError, socket: Duplex) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const refusal = toRefusal(error)
    const last = traffic.lastOf(socket)
    if (!refusal) socket.destroy()
    else if (!last) refuseConnection(router, socket, refusal, error)
    else if (last.req.complete) last.res.once('close', () => refuseConnection(router, socket, refusal, error))
    else {
      // the request is measured and logged with the error of its body
      sendResponse(last.req, last.res, router.refuse(refusal, { rawHeaders: last.req.rawHeaders, isRouted: true }))
      // Node does not end a body that is still being read after the response
      socket.once('close', () => last.req.destroy())
    }
  })
  server.on('connect', (_req, socket) => {
    // Node has detached this connection
    socket.on('error', () => socket.destroy()).resume()
    refuseConnection(router, socket, new IngestError('malformed-request', 'This server is not a proxy.'))
  })
}

/** An error of Node's parser, with the last bytes it was given. */
type ParserError = NodeJS.ErrnoException & { rawPacket?: Uint8Array }

/** The `Origin` of an unparsable head, so that a web page can read the response. */
function originIn(head: Uint8Array = new Uint8Array()): string[] {
  const text = Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1')
  const origin = /^origin:[ \t]*(\S{1,1024})[ \t]*\r?$/im.exec(text)?.[1]
  return origin === undefined ? [] : ['Origin', origin]
}

/** Undefined for a lost connection: a client that gets a 400 for a truncated request would drop a valid batch. */
function toRefusal({ code }: NodeJS.ErrnoException): IngestError | undefined {
  switch (code) {
    case 'ECONNRESET':
    case 'EPIPE':
    case 'HPE_INVALID_EOF_STATE':
      return undefined
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new IngestError('request-timeout', 'The request took too long to arrive.')
    case 'HPE_HEADER_OVERFLOW':
      return new IngestError('headers-too-large', tooManyHeaders(headersMax))
    default:
      return new IngestError('malformed-request', 'This is not a valid HTTP/1.1 request.')
  }
}

/** `cause` holds the received part of the head. */
function refuseConnection(router: Router, socket: Duplex, error: IngestError, cause?: ParserError): void {
  if (!socket.writable) return
  const head = { socket: socket as Socket, rawHeaders: originIn(cause?.rawPacket) }
  const { status, headers, body } = router.refuse(error, head)
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // further bytes are discarded: closing now would reset the connection and lose the response
  const timer = setTimeout(() => socket.destroy(), discardMs)
  socket.once('close', () => clearTimeout(timer))
}
