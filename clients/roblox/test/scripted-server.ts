import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import type { Test } from 'tap'

/** Responds to one request, given its content. */
export type Step = (res: ServerResponse, body: string) => void

/** A server that answers each request with the next step, and with the last one from then on. */
export async function openScriptedServer(t: Test, ...steps: Step[]) {
  const bodies: string[] = []
  const server = createServer(async (req, res) => {
    const bytes = await buffer(req)
    const body = (req.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
    const step = steps[Math.min(bodies.length, steps.length - 1)] as Step
    bodies.push(body)
    step(res, body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies }
}

export const answer =
  (status: number, headers: Record<string, string> = {}, body = ''): Step =>
  (res) =>
    void res.writeHead(status, headers).end(body)

export const json = (value: unknown): Step => answer(202, {}, JSON.stringify(value))

export const accept: Step = (res, body) => {
  json({ accepted: JSON.parse(body).events.length, duplicates: 0, rejected: [] })(res, body)
}

export const cut: Step = (res) => void res.socket?.destroy()

/** Sends the start of an answer, and cuts the connection. */
export const cutAfter =
  (start: string): Step =>
  (res) => {
    res.writeHead(202, { 'Content-Length': '40' })
    res.write(start, () => res.socket?.destroySoon())
  }
