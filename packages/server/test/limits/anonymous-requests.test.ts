import { createServer } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { shareMaxOf } from '../../src/limits/concurrency.ts'
import { turnBudgets } from '../../src/limits/turn-budget.ts'
import { createHandler } from '../../src/node-handler.ts'
import { requestBytes } from '../edges.ts'
import { listen } from '../open-server.ts'
import { openRaw, type Sent } from '../raw-connection.ts'
import { batchOf, headersOf, openTestIngest } from '../test-ingest.ts'

const clientCount = 40

/** Requests without a valid key, and the maximum number of their responses in one turn. */
const anonymous: Record<string, [sent: Sent, turnMax: number]> = {
  'an unknown path': [{ method: 'GET', path: '/nope' }, 4],
  readiness: [{ method: 'GET', path: '/readyz' }, 4],
  liveness: [{ method: 'GET', path: '/livez' }, 4],
  'a large document': [{ method: 'GET', path: '/openapi.json' }, 1],
  'an unknown project': [{ headers: headersOf('junk', 'unknown'), body: batchOf(1) }, 4],
}

for (const [name, [sent, turnMax]] of Object.entries(anonymous)) {
  t.test(
    `of requests without a key, a turn responds to few, and a batch does not wait for them: ${name}`,
    async (t) => {
      const { ingest, headers } = await openTestIngest()
      const handler = createHandler(ingest)
      let responses = 0
      let turns = 0
      let tick = setImmediate(function next() {
        turns++
        tick = setImmediate(next)
      })
      t.teardown(() => clearImmediate(tick))
      const server = createServer((req, res) => {
        res.once('finish', () => void responses++)
        handler(req, res)
      })
      const port = await listen(t, server)
      const raws = await Promise.all(Array.from({ length: clientCount }, () => openRaw(port)))
      const honest = await openRaw(port)
      honest.write(requestBytes({ headers, body: batchOf(1, 'before') }))
      await honest.read()
      const from = turns
      for (const raw of raws) raw.write(Buffer.alloc(10 * requestBytes(sent).length, requestBytes(sent)))
      await Promise.all(raws.map((raw) => raw.read()))
      honest.write(requestBytes({ headers, body: batchOf(1, 'beside') }))
      t.equal((await honest.read()).status, 202)
      t.ok(responses < clientCount * 10, 'before the responses to the others')
      for (const raw of raws) for (let i = 0; i < 9; i++) await raw.read()
      const took = turns - from
      t.ok(took * turnMax >= clientCount * 10, `${clientCount * 10} in ${took} turns`)
      for (const { socket } of [...raws, honest]) socket.destroy()
    },
  )
}

t.test('beyond the requests that may wait for a turn, all but probes and preflights get a 503', async (t) => {
  const { ingest } = await openTestIngest()
  const handle = toFetchHandler(ingest, { cors: ['*'] })
  const { max, waitingMax } = turnBudgets.anonymous
  const admitted = max + shareMaxOf({ max: waitingMax })
  const headers = { Origin: 'https://app.example.com', 'Access-Control-Request-Method': 'POST' }
  const preflight = { method: 'OPTIONS', headers }
  const statuses = async (path: string, init?: RequestInit) => {
    // with the whole budget
    await nextTurn()
    const responses = Array.from({ length: admitted + 10 }, () => handle(new Request(`http://localhost${path}`, init)))
    const counts: Record<number, number> = {}
    for (const response of await Promise.all(responses)) {
      counts[response.status] = (counts[response.status] ?? 0) + 1
      if (response.status === 503) t.equal(response.headers.get('retry-after'), '1')
    }
    return counts
  }
  t.strictSame(await statuses('/nope'), { 404: admitted, 503: 10 })
  t.strictSame(await statuses('/nope', preflight), { 404: admitted, 503: 10 })
  t.strictSame(await statuses('/v1/events/batch', preflight), { 204: admitted + 10 })
  for (const probe of ['/livez', '/readyz']) t.strictSame(await statuses(probe), { 200: admitted + 10 })
})
