import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** A map of about so many bytes, the same for the same seed. `moved` is the number of a part that stands elsewhere. */
export function mapOf(bytes: number, { seed = 1, moved = -1 } = {}): Buffer {
  const random = randomFrom(seed)
  const parts: string[] = []
  for (let size = 0; size < bytes; ) {
    const position = [random(), random(), random()]
    const part = { id: parts.length, position: parts.length === moved ? [1, 2, 3] : position, size: random() }
    const text = JSON.stringify(part)
    parts.push(text)
    size += text.length + 1
  }
  return Buffer.from(`{"parts":[${parts.join(',')}]}`)
}

export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** A generator of D. H. Lehmer's kind, with the numbers of Park and Miller. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state
  }
}

/**
 * Stands in front of a server until the end of the test, and tells of each request before it is passed on; resolves to
 * its url.
 */
export async function startProxy(
  t: Test,
  urlOf: () => string,
  onRequest: (req: IncomingMessage) => Promise<void> | void,
): Promise<string> {
  const proxy = createServer(async (req, res) => {
    await onRequest(req)
    const { method, headers, url = '' } = req
    const passed = request(new URL(url, urlOf()), { method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.on('error', () => res.destroy())
      answer.pipe(res)
    })
    passed.on('error', () => res.destroy())
    req.on('error', () => passed.destroy())
    req.pipe(passed)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}
