import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

interface Exchange {
  req: IncomingMessage
  res: ServerResponse
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
  const busy = new Map<Duplex, Exchange & { pending: number }>()
  let onIdle: (() => void) | undefined
  function remove(socket: Duplex): void {
    if (busy.delete(socket) && busy.size === 0) onIdle?.()
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
  // queued responses emit no 'close' when their connection closes; with TLS, requests have a socket of their own
  for (const event of ['connection', 'secureConnection']) {
    server.on(event, (socket: Duplex) => socket.once('close', () => remove(socket)))
  }
  return {
    add(req, res) {
      const { socket } = req
      silent.delete(socket)
      const connection = { req, res, pending: (busy.get(socket)?.pending ?? 0) + 1 }
      busy.set(socket, connection)
      res.once('close', () => {
        const current = busy.get(socket)
        if (current && --current.pending === 0) remove(socket)
      })
    },
    lastOf: (socket) => busy.get(socket),
    whenIdle(action) {
      if (busy.size === 0) action()
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
