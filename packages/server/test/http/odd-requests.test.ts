import { createServer } from 'node:http'
import t from 'tap'
import { createHandler } from '../../src/node-handler.ts'
import { routes } from '../../src/public-router.ts'
import { requestBytes } from '../edges.ts'
import { listen, openServed } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, headersOf, openTestIngest } from '../test-ingest.ts'

t.test('two Host headers are refused on every route', async (t) => {
  const { key, connect } = await openServed(t)
  for (const { method, path } of routes) {
    const raw = await connect()
    const headers: [string, string][] = [...headersOf(key), ['Host', 'b']]
    raw.write(requestBytes({ method, path: path.replace('{name}', 'c'), headers, body: method === 'GET' ? '' : '{}' }))
    const response = await raw.read()
    t.match(response, { status: 400, json: { code: 'repeated-header' } }, `${method} ${path}`)
    raw.socket.destroy()
  }
})

t.test('a request line with another version than HTTP/1.1 and HTTP/1.0 is refused', async (t) => {
  const { headers, connect, storedCount } = await openServed(t)
  const batch = requestBytes({ headers, body: batchOf(1) }).toString()
  for (const version of ['HTTP/2.0', 'HTTP/0.9']) {
    const raw = await connect()
    raw.write(batch.replace('HTTP/1.1', version))
    t.match(await raw.read(), { status: 400, headers: { connection: 'close' }, json: { code: 'malformed-request' } })
    t.equal(await raw.ended, 'end')
  }
  t.equal(await storedCount(), 0)
})

t.test('a request after one with an Upgrade gets a response, or its connection is closed', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const upgrade: [string, string][] = [
    ['Connection', 'Upgrade, HTTP2-Settings'],
    ['Upgrade', 'h2c'],
    ['HTTP2-Settings', 'AAMAAABkAAQCAAAAAAIAAAAA'],
  ]
  const batch = (id: string) => requestBytes({ headers: [...headers, ...upgrade], body: batchOf(1, id) })
  const livez = requestBytes({ method: 'GET', path: '/livez' })
  const ports = [(await openServed(t, { ingest })).served.port, await listen(t, createServer(createHandler(ingest)))]
  for (const port of ports) {
    const raw = await openRaw(port)
    raw.write(Buffer.concat([batch('a'), livez]))
    t.match(await raw.read(), { status: 202, headers: { connection: 'close' } })
    t.equal(await raw.ended, 'end')

    const kept = await openRaw(port)
    for (const id of ['b', 'c']) {
      kept.write(batch(id))
      t.match(await kept.read(), { status: 202, headers: { connection: 'keep-alive' } }, 'alone')
    }
    kept.write(livez)
    t.equal((await kept.read()).status, 200)
    kept.socket.destroy()
  }
})

t.test('a web page can read the refusal of a request whose head or body cannot be parsed', async (t) => {
  for (const cors of [['*'], ['https://app.example.com', 'https://b.example.com']]) {
    const { headers, connect } = await openServed(t, { cors })
    const origin = 'Origin: https://app.example.com\r\n'
    const chunked: [string, string][] = [
      ...headers,
      ['Origin', 'https://app.example.com'],
      ['Transfer-Encoding', 'chunked'],
    ]
    for (const [status, bytes] of [
      [431, `GET /livez HTTP/1.1\r\nHost: a\r\n${origin}X: ${'x'.repeat(20_000)}\r\n\r\n`],
      [431, `GET /livez HTTP/1.1\r\nHost: a\r\n${origin}${'X: x\r\n'.repeat(101)}\r\n`],
      [400, `GET /livez HTTP/1.1\r\nHost: a\r\n${origin}no header\r\n\r\n`],
      [400, requestBytes({ headers: chunked, body: 'zz\r\n' })],
    ] as const) {
      const raw = await connect()
      raw.write(bytes)
      const response = await raw.read()
      t.equal(response.status, status)
      t.equal(response.headers['access-control-allow-origin'], cors[0])
      t.match(response.headers['access-control-expose-headers'], /X-Request-Id/)
      raw.socket.destroy()
    }
  }
})

t.test('a range may end with the last time of RFC 3339', async (t) => {
  const { key, raw } = await openServed(t)
  for (const path of ['/v1/activity', '/v1/rejected']) {
    for (const [range, status] of [
      ['to=9999-12-31T23:59:59Z', 200],
      ['from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59.999Z', 200],
      ['to=0000-01-01T00:10:00Z', 200],
      ['to=0000-01-01T00:00:00Z', 400],
      ['from=9999-12-31T23:30:00Z&to=9999-12-31T23:59:59Z', 400],
    ] as const) {
      raw.write(requestBytes({ method: 'GET', path: `${path}?${range}`, headers: headersOf(key) }))
      const response = await raw.read()
      t.equal(response.status, status, range)
      if (status !== 200) continue
      for (const time of [response.json.from, response.json.to, response.json.steps[0].at]) t.match(time, /^\d{4}-/)
    }
  }
})
