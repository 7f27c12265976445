import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A TCP proxy as HAProxy is without `on-marked-down shutdown-sessions`, or a virtual address. */
export interface SwitchingProxy {
  port: number
  /** Leads new connections to this port from now on; those that are open stay where they are. */
  switchTo(port: number): void
}

export async function startSwitchingProxy(t: Test, port: number): Promise<SwitchingProxy> {
  let target = port
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(socket)
      })
    }
    client.pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    switchTo(next) {
      target = next
    },
  }
}
