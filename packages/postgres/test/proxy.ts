import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A TCP proxy in front of PostgreSQL. */
export interface DatabaseProxy {
  /** The URL of the database through the proxy. */
  url: string
  /** Leads new connections to this port, as a virtual address does; open connections stay. */
  switchTo(port: number): void
  /** Cuts the connection of the `n`-th statement from now, counted from 1, while it runs or when it is committed. */
  cut(n: number, when: 'running' | 'committed'): void
  /** From now on, drops PostgreSQL's notices, as some proxies do. */
  dropNotices(): void
  /** The number of statements passed on that use the schema. */
  statements(): number
  /** Whether that connection was cut. */
  isCut(): boolean
}

/** PostgreSQL sends this after a statement outside a transaction, which is committed by then. */
const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

export async function startProxy(t: Test, database: string): Promise<DatabaseProxy> {
  const url = new URL(database)
  const { hostname } = url
  let target = Number(url.port)
  const sockets = new Set<Socket>()
  let statements = 0
  let cutAt = Number.POSITIVE_INFINITY
  let cutWhen = 'committed'
  let isSilent = false

  const server = createServer((client) => {
    const upstream = connect(target, hostname)
    let isDoomed = false
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      // earlier bytes are still sent
      socket.on('close', () => {
        sockets.delete(socket)
        other.end()
      })
    }
    client.on('data', (bytes) => {
      upstream.write(bytes)
      // statements without the schema belong to the opening of a connection
      if (!bytes.includes('ingest.') || ++statements !== cutAt) return
      isDoomed = true
      if (cutWhen === 'running') client.destroy()
    })
    upstream.on('data', (received) => {
      const bytes = isSilent ? withoutNotices(received) : received
      if (!isDoomed) client.write(bytes)
      else if (bytes.subarray(-readyForQuery.length).equals(readyForQuery)) client.destroy()
    })
  })

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    switchTo(port) {
      target = port
    },
    cut(n, when) {
      cutAt = statements + n
      cutWhen = when
    },
    dropNotices() {
      isSilent = true
    },
    statements: () => statements,
    isCut: () => statements >= cutAt,
  }
}

const noticeResponse = 0x4e

/** `bytes` are whole messages of a type, a length and a body, because a database on this machine sends short ones. */
function withoutNotices(bytes: Buffer): Buffer {
  const kept: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (bytes[at] !== noticeResponse) kept.push(bytes.subarray(at, end))
    at = end
  }
  return Buffer.concat(kept)
}
