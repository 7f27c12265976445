import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { startServe } from './ingest-process.ts'
import { createKey, projectId } from './sender.ts'

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

/**
 * A server of its own behind a url that stays. `onRequest` makes what is told of each request, of what kills the server
 * and, if `restart`, starts it again.
 */
export async function openKilled(
  t: Test,
  onRequest: (kill: () => Promise<void>) => Parameters<typeof startProxy>[2],
  { restart }: { restart: boolean },
) {
  const data = t.testdir()
  const key = await createKey(data)
  const start = () => startServe(t, ['--data', data, '--rate-limit', 'off'])
  let current = await start()
  async function kill(): Promise<void> {
    current.signal('SIGKILL')
    await current.exited
    if (restart) current = await start()
  }
  const url = await startProxy(t, () => current.url, onRequest(kill))
  const restarted = async () => {
    current = await start()
  }
  return { data, restarted, env: { INGEST_PROJECT_ID: projectId, INGEST_URL: url, INGEST_KEY: key } }
}
