import { chmodSync } from 'node:fs'
import { lstat, rm } from 'node:fs/promises'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type ListenOptions as NodeListenOptions } from 'node:net'
import { IngestError } from '@ingest/core'

/** Where a server listens. */
export interface Address {
  /** Default: `127.0.0.1`, which only this machine can reach. */
  host?: string
  /** Default: 8787, or 8788 for the admin handler. 0 means any free port. */
  port?: number
  /**
   * The path of a Unix socket, instead of `host` and `port`. The user and the group of this process can connect. A file
   * left by a server that has ended is replaced; the file is removed on close.
   */
  socket?: string
}

const socketMode = 0o660
const socketBytesMax = process.platform === 'linux' ? 107 : 103

/**
 * Starts listening. Resolves with the URL and the port; rejects with Node's error if it cannot listen.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function listen(
  server: Server,
  address: Address,
  portDefault: number,
): Promise<{ url: string; port: number }> {
  const { host, port, socket } = address
  if (socket === undefined) {
    await bind(server, { host: host ?? '127.0.0.1', port: port ?? portDefault })
    return urlOf(server)
  }
  if (host !== undefined || port !== undefined) {
    throw new IngestError('invalid-argument', 'Set socket, or host and port, not both.')
  }
  // libuv truncates a longer path
  if (process.platform !== 'win32' && Buffer.byteLength(socket) > socketBytesMax) {
    throw new IngestError('invalid-argument', `The path of a Unix socket has at most ${socketBytesMax} bytes.`)
  }
  await bindSocket(server, socket)
  try {
    if (process.platform !== 'win32') chmodSync(socket, socketMode)
  } catch (error) {
    server.close()
    throw error
  }
  return { url: `unix:${socket}`, port: 0 }
}

function urlOf(server: Server & { setSecureContext?: unknown }): { url: string; port: number } {
  const { address, family, port } = server.address() as AddressInfo
  const scheme = server.setSecureContext ? 'https' : 'http'
  return { url: `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`, port }
}

async function bindSocket(server: Server, path: string): Promise<void> {
  try {
    await bind(server, { path })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || !(await isStale(path))) throw error
    await rm(path, { force: true })
    await bind(server, { path })
  }
}

function bind(server: Server, options: NodeListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Whether the file is a socket on which no process listens. */
async function isStale(path: string): Promise<boolean> {
  if (!(await lstat(path)).isSocket()) return false
  return new Promise((resolve) => {
    const probe = connect(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(false)
    })
    probe.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED'))
  })
}
