import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** A response that does not come from the server behind the proxy. */
export interface Lie {
  status: number
  headers?: Record<string, string>
  body?: string
}

/** The response of an Ingest server to a request that it refuses. */
export function refusal(status: number, code: string, { title = code, ...headers }: Record<string, string> = {}): Lie {
  const body = JSON.stringify({ type: `urn:ingest:problem:${code}`, title, status, detail: `${title}.`, code })
  return { status, headers: { 'Content-Type': 'application/problem+json', ...headers }, body }
}

/** The address of the console behind a proxy, which forwards requests for paths without a lie. */
export async function startProxy(t: Test, url: string, lieFor: (path: string) => Lie | undefined): Promise<string> {
  const proxy = createServer((req, res) => {
    const target = new URL(req.url ?? '', url)
    const lie = lieFor(target.pathname)
    if (lie) {
      const { status, headers = {}, body = '' } = lie
      return void res.writeHead(status, headers).end(body)
    }
    const { method, headers } = req
    const passed = request(target, { method, headers }, (response) => {
      res.writeHead(response.statusCode ?? 0, response.headers)
      response.pipe(res)
    })
    passed.on('error', () => res.destroy())
    req.pipe(passed)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void proxy.close().closeAllConnections())
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/console/`
}
