import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

interface Exchange {
  req: IncomingMessage
  res: ServerResponse
}

/** The requests of a connection. */
interface Connection {
  /** The last request, while any is in flight. */
  last: Exchange | undefined
  pending: number
  onResponseClose(): void
}

/** The connections of a server, and those with requests in flight. */
export interface Traffic {
  add(req: IncomingMessage, res: ServerResponse): void
  /** The last request of a connection; undefined if the connection has none in flight. */
  lastOf(socket: Duplex): Exchange | undefined
  /** Calls `action` as soon as no request is in flight. */
  whenIdle(action: () => void): void
  /** Closes connections that have carried no request; Node's closeIdleConnections leaves them open. */
  closeSilentConnections(): void
  closeAllConnections(): void
}

export function watchTraffic(server: Server & { setSecureContext?: unknown }): Traffic {
  const open = new Set<Duplex>()
  const silent = new Set<Duplex>()
  // made once per connection: a Map of those that are busy would change with each request, and keep the garbage of its
  // earlier tables alive
  const connections = new WeakMap<Duplex, Connection>()
  let busy = 0
  let onIdle: (() => void) | undefined

  function begin(socket: Duplex): Connection {
    const connection: Connection = {
      last: undefined,
      pending: 0,
      onResponseClose() {
        if (connection.pending > 0 && --connection.pending === 0) end(connection)
      },
    }
    connections.set(socket, connection)
    // queued responses emit no 'close' when their connection closes
    socket.once('close', () => {
      if (connection.pending > 0) end(connection)
    })
    return connection
  }

  function end(connection: Connection): void {
    connection.pending = 0
    connection.last = undefined
    if (--busy === 0) onIdle?.()
  }

  // Node's closeAllConnections leaves connections in a TLS handshake open
  server.on('connection', (socket: Duplex) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  server.on(server.setSecureContext ? 'secureConnection' : 'connection', (socket: Duplex) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  // these requests get a response elsewhere
  for (const event of ['clientError', 'connect']) {
    server.on(event, (_cause: unknown, socket: Duplex) => silent.delete(socket))
  }
  return {
    add(req, res) {
      const { socket } = req
      silent.delete(socket)
      const connection = connections.get(socket) ?? begin(socket)
      connection.last = { req, res }
      if (connection.pending++ === 0) busy++
      res.on('close', connection.onResponseClose)
    },
    lastOf: (socket) => connections.get(socket)?.last,
    whenIdle(action) {
      if (busy === 0) action()
      else onIdle = action
    },
    closeSilentConnections() {
      for (const socket of silent) socket.destroy()
    },
    closeAllConnections() {
      for (const socket of open) socket.destroy()
    },
  }
}

/** Stops listening after `lingerMs`, once no request is in flight, and after `closeTimeoutMs` at the latest. */
export function drain(
  server: Server,
  traffic: Traffic,
  { lingerMs, closeTimeoutMs }: { lingerMs: number; closeTimeoutMs: number },
): Promise<void> {
  return new Promise((resolve) => {
    const stopListening = () => {
      if (server.listening) server.close()
      traffic.closeSilentConnections()
    }
    const linger = setTimeout(() => traffic.whenIdle(stopListening), lingerMs)
    const deadline = setTimeout(() => {
      stopListening()
      traffic.closeAllConnections()
    }, closeTimeoutMs)
    server.once('close', () => {
      clearTimeout(linger)
      clearTimeout(deadline)
      resolve()
    })
  })
}
