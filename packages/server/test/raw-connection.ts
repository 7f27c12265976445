import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** A request: by default a POST of a batch. */
export interface Sent {
  method?: string
  path?: string
  headers?: readonly (readonly [string, string])[]
  body?: string | Uint8Array
}

export interface RawResponse {
  status: number
  /** By lower-case name. */
  headers: Record<string, string>
  /** As UTF-8. */
  body: string
  bytes: Buffer
  /** The value of a body in JSON. */
  json: ReturnType<typeof JSON.parse>
}

export function toRawResponse(status: number, headers: Record<string, string>, bytes: Buffer): RawResponse {
  const body = bytes.toString()
  const isJson = body !== '' && /[/+]json$/.test(headers['content-type'] ?? '')
  return { status, headers, body, bytes, json: isJson ? JSON.parse(body) : undefined }
}

/** A TCP connection on which a test writes any bytes and reads whole responses. */
export interface RawConnection {
  socket: Socket
  write(data: string | Uint8Array): void
  /** The next response; rejects when the connection ends first. `head`: the response has no body. */
  read(head?: boolean): Promise<RawResponse>
  /** How the connection ended. */
  ended: Promise<'end' | 'reset'>
}

/** Connects to a port of this machine, or to the path of a Unix socket. */
export async function openRaw(to: number | string, { tls = false } = {}): Promise<RawConnection> {
  const address = typeof to === 'string' ? { path: to } : { port: to, host: '127.0.0.1' }
  const options = { ...address, allowHalfOpen: true, rejectUnauthorized: false }
  const socket = tls ? connectTls(options) : connect(options)
  const event = tls ? 'secureConnect' : 'connect'
  await new Promise((resolve, reject) => socket.once(event, resolve).once('error', reject))
  let received = ''
  let over = false
  let wake = () => {}
  const ended = new Promise<'end' | 'reset'>((resolve) => {
    const stop = (how: 'end' | 'reset') => {
      over = true
      wake()
      resolve(how)
    }
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      wake()
    })
    socket.on('end', () => stop('end'))
    socket.on('error', () => stop('reset'))
    socket.on('close', () => stop('reset'))
  })
  async function read(head = false): Promise<RawResponse> {
    for (;;) {
      const parsed = parse(received, head)
      if (parsed) {
        received = received.slice(parsed.length)
        return parsed.response
      }
      if (over) throw new Error(`The connection ended after ${JSON.stringify(received)}.`)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return { socket, write: (data) => void socket.write(data), read, ended }
}

function parse(text: string, head: boolean): { response: RawResponse; length: number } | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const [statusLine = '', ...lines] = text.slice(0, headEnd).split('\r\n')
  const status = Number(statusLine.split(' ')[1])
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const rest = text.slice(headEnd + 4)
  const body = head || [100, 304].includes(status) ? { text: '', length: 0 } : parseBody(rest, headers)
  if (!body) return undefined
  const bytes = Buffer.from(body.text, 'latin1')
  return { response: toRawResponse(status, headers, bytes), length: headEnd + 4 + body.length }
}

/** The body of a response; undefined while it is incomplete. */
function parseBody(rest: string, headers: Record<string, string>): { text: string; length: number } | undefined {
  if (headers['transfer-encoding'] === 'chunked') return parseChunked(rest)
  const length = Number(headers['content-length'] ?? 0)
  return rest.length < length ? undefined : { text: rest.slice(0, length), length }
}

function parseChunked(rest: string): { text: string; length: number } | undefined {
  const parts: string[] = []
  for (let at = 0; ; ) {
    const lineEnd = rest.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = Number.parseInt(rest.slice(at, lineEnd), 16)
    const start = lineEnd + 2
    at = start + size + 2
    if (rest.length < at) return undefined
    if (size === 0) return { text: parts.join(''), length: at }
    parts.push(rest.slice(start, start + size))
  }
}
