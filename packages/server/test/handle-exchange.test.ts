import t, { type Test } from 'tap'
import { serve } from '../src/serve.ts'
import { batchOf, headersOf, openTestIngest } from './batches.ts'
import { requestBytes } from './edges.ts'
import { openRaw } from './raw-exchange.ts'

async function open(t: Test) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  t.teardown(() => raw.socket.destroy())
  return { ...opened, raw }
}

const expect = ['Expect', '100-continue'] as const

t.test('who waits to be told is told to go on when the headers are good', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const body = batchOf(2)
  const bytes = requestBytes({ headers: [...headers, expect], body })
  raw.write(bytes.subarray(0, -body.length))
  t.equal((await raw.read()).status, 100)
  raw.write(body)
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 2)
})

t.test('who waits to be told gets a refusal without being told to go on', async (t) => {
  for (const [status, headers] of [
    [401, headersOf('junk')],
    [413, undefined],
  ] as const) {
    const opened = await open(t)
    const length = ['Content-Length', status === 413 ? '262145' : '100'] as const
    opened.raw.write(requestBytes({ headers: [...(headers ?? opened.headers), expect, length] }))
    t.equal((await opened.raw.read()).status, status)
  }
})

t.test('other expectations are ignored', async (t) => {
  const { raw, headers } = await open(t)
  raw.write(requestBytes({ headers: [...headers, ['Expect', 'miracles']], body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
})

t.test('HTTP/1.1 needs a Host, HTTP/1.0 does not', async (t) => {
  const { raw } = await open(t)
  raw.write('GET /livez HTTP/1.1\r\n\r\n')
  const answer = await raw.read()
  t.equal(answer.status, 400)
  t.equal(JSON.parse(answer.body).code, 'malformed-request')
  raw.write('GET /livez HTTP/1.0\r\n\r\n')
  t.equal((await raw.read()).status, 200)
})

t.test('a path may come as a whole URL, as proxies send it', async (t) => {
  const { raw } = await open(t)
  raw.write(requestBytes({ method: 'GET', path: 'http://localhost:1/livez?a=b' }))
  t.equal((await raw.read()).status, 200)
  for (const path of ['*', '//livez', '/%', '/livez%00', 'http://localhost', 'http://[/livez']) {
    raw.write(requestBytes({ method: 'OPTIONS', path }))
    t.equal((await raw.read()).status, 404, path)
  }
})
