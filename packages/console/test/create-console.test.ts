import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler, createMetrics, type HandlerOptions, serve, toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'
import { createConsole } from '../src/create-console.ts'
import { readPage } from '../src/page-files.ts'

const page = fileURLToPath(new URL('../dist/page/', import.meta.url))

interface Response {
  status: number | undefined
  headers: IncomingMessage['headers']
  body: Buffer
}

type Send = (path: string, sent?: { method?: string; headers?: Record<string, string> }) => Promise<Response>

/** Sends requests as they are: fetch would inflate, follow and resolve. */
function sendTo(port: number): Send {
  return async (path, { method = 'GET', headers = {} } = {}) => {
    const req = request({ port, host: '127.0.0.1', path, method, headers, agent: false }).end()
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    return { status: res.statusCode, headers: res.headers, body: await buffer(res) }
  }
}

async function listen(t: Test, server: Server): Promise<Send> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void server.close())
  return sendTo((server.address() as AddressInfo).port)
}

const openIngest = () => createIngest({ store: openMemoryStore() })

/** Every way to serve the console. */
const edges: Record<string, (t: Test, options?: HandlerOptions) => Promise<Send>> = {
  'node:http': (t) => listen(t, createServer(createConsole())),
  async serve(t, options) {
    const served = await serve({
      ingest: openIngest(),
      port: 0,
      closeTimeoutMs: 1,
      console: createConsole(),
      ...options,
    })
    t.teardown(() => served.close())
    return sendTo(served.port)
  },
  createHandler: (t, options) =>
    listen(t, createServer(createHandler(openIngest(), { console: createConsole(), ...options }))),
  async toFetchHandler(_, options) {
    const handle = toFetchHandler(openIngest(), { console: createConsole(), ...options })
    return async (path, { method = 'GET', headers = {} } = {}) => {
      const response = await handle(new Request(`http://localhost${path}`, { method, headers }))
      const body = Buffer.from(await response.arrayBuffer())
      return { status: response.status, headers: Object.fromEntries(response.headers), body }
    }
  },
}

const security = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': /^accelerometer=\(\), .*\busb=\(\)$/,
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

const files = {
  '': 'text/html; charset=utf-8',
  'index.html': 'text/html; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
  'worker.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

const gzip = { 'Accept-Encoding': 'gzip' }

for (const [name, open] of Object.entries(edges)) {
  t.test(`by ${name}, each file has its type, its tag, and the headers that protect the page`, async (t) => {
    const send = await open(t)
    for (const [file, type] of Object.entries(files)) {
      const bytes = readFileSync(join(page, file || 'index.html'))
      const { status, headers, body } = await send(`/console/${file}`)
      t.equal(status, 200, file)
      t.ok(body.equals(bytes), file)
      t.match(headers, { ...security, etag: /^"[\w-]{43}"$/, 'content-length': String(bytes.length) }, file)
      t.match(headers, { 'content-type': type, 'cache-control': 'no-cache', vary: /^Accept-Encoding\b/ }, file)
      t.notHas(headers, { 'content-encoding': '' })

      const compressed = await send(`/console/${file}`, { headers: gzip })
      t.match(compressed.headers, { ...security, 'content-encoding': 'gzip', vary: /^Accept-Encoding\b/ }, file)
      t.ok(gunzipSync(compressed.body).equals(bytes), file)
      t.not(compressed.headers.etag, headers.etag, 'strong tags differ between encodings')
    }
  })

  t.test(`by ${name}, a file that the browser has cached gets a 304`, async (t) => {
    const send = await open(t)
    for (const coding of [{}, gzip]) {
      const { etag = '' } = (await send('/console/app.js', { headers: { ...coding } })).headers
      for (const list of [etag, `W/${etag}`, `"a,b", ${etag}`, '*']) {
        const { status, headers, body } = await send('/console/app.js', {
          headers: { ...coding, 'If-None-Match': list },
        })
        t.strictSame([status, body.length], [304, 0], list)
        t.match(headers, { ...security, etag, 'cache-control': 'no-cache', vary: /^Accept-Encoding\b/ })
      }
      const other = await send('/console/app.js', { headers: { ...coding, 'If-None-Match': '"other"' } })
      t.equal(other.status, 200)
    }
  })

  t.test(`by ${name}, HEAD is GET without the body, and other methods get a 405`, async (t) => {
    const send = await open(t)
    for (const path of ['/console', '/console/', '/console/app.css', '/console/none']) {
      const got = await send(path, { headers: gzip })
      const head = await send(path, { method: 'HEAD', headers: gzip })
      t.strictSame([head.status, head.body.length], [got.status, 0], path)
      for (const header of ['content-length', 'content-type', 'content-encoding', 'etag', 'location']) {
        t.equal(head.headers[header], got.headers[header], `${path} ${header}`)
      }
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
        const { status, headers } = await send(path, { method })
        t.match({ status, headers }, { status: 405, headers: { ...security, allow: 'GET, HEAD' } }, `${method} ${path}`)
      }
    }
  })

  t.test(`by ${name}, other paths below /console/ get a 404, including those that lead out of it`, async (t) => {
    const send = await open(t)
    const paths = ['none', 'APP.JS', 'app.js/', 'index.js', '%61pp.js', 'app.js.map', '__proto__', 'constructor', '/']
    for (const path of paths) {
      const { status, headers, body } = await send(`/console/${path}`)
      t.match(
        { status, headers },
        { status: 404, headers: { ...security, 'content-type': 'text/plain; charset=utf-8' } },
      )
      t.equal(body.toString(), 'There is nothing at this path.\n', path)
    }
    const outside = [
      '../package.json',
      '..%2fpackage.json',
      '%2e%2e/package.json',
      '..\\package.json',
      '....//index.js',
    ]
    for (const path of outside) t.equal((await send(`/console/${path}`)).status, 404, path)
    for (const path of ['/consoles', '/Console/', '//console/', '//']) t.equal((await send(path)).status, 404, path)
  })

  t.test(`by ${name}, /console redirects to /console/`, async (t) => {
    const send = await open(t)
    for (const path of ['/console', '/console?a=b']) {
      const { status, headers } = await send(path)
      t.match({ status, headers }, { status: 308, headers: { ...security, location: 'console/' } })
    }
    t.equal((await send('/console/?a=b')).status, 200)
  })

  // a handler of toFetchHandler that is mounted at /ops also gets the path /, and a relative redirect would leave /ops
  const hasRoot = ['serve', 'createHandler'].includes(name)
  t.test(`by ${name}, ${hasRoot ? '/ redirects to the console' : '/ is not of the console'}`, async (t) => {
    const send = await open(t)
    for (const path of ['/', '/?a=b']) {
      const { status, headers } = await send(path)
      t.match([status, headers.location], hasRoot ? [308, 'console/'] : [404, undefined])
    }
    t.equal((await send('/', { method: 'POST' })).status, 404)
  })
}

t.test('without node:http, a response to HEAD has no body, and other paths have no response', async (t) => {
  const { respond } = createConsole()
  for (const path of ['/console/', '/console/none']) {
    t.equal(respond({ method: 'HEAD', path, headers: {} })?.body.length, 0)
    t.not(respond({ method: 'GET', path, headers: {} })?.body.length, 0)
  }
  for (const path of ['/', '/v1/stats', '/consoles']) t.equal(respond({ method: 'GET', path, headers: {} }), undefined)
})

t.test('gzip is sent if Accept-Encoding accepts it', async (t) => {
  const send = await listen(t, createServer(createConsole()))
  const cases: [accepted: string, coding: string | undefined][] = [
    ['gzip, deflate, br', 'gzip'],
    ['br;q=1.0, GZIP;q=0.5', 'gzip'],
    ['*', 'gzip'],
    ['*;q=0.1, gzip;q=0', undefined],
    ['gzip; q=0.0', undefined],
    ['br', undefined],
    ['gzip;q=much', undefined],
    ['', undefined],
  ]
  for (const [accepted, coding] of cases) {
    const { headers } = await send('/console/app.js', { headers: { 'Accept-Encoding': accepted } })
    t.equal(headers['content-encoding'], coding, accepted)
  }
})

t.test('below a prefix, /console redirects to the page, and other paths are passed on', async (t) => {
  const handler = createConsole()
  // as Express takes the prefix off
  const send = await listen(
    t,
    createServer((req, res) => {
      req.url = req.url?.replace('/ops', '') ?? ''
      handler(req, res, () => res.end(`passed on ${req.url}`))
    }),
  )
  const { location = '' } = (await send('/ops/console')).headers
  t.equal(new URL(location, 'http://localhost/ops/console').pathname, '/ops/console/')
  t.equal((await send('/ops/console/app.js')).status, 200)
  t.equal((await send('/ops/console/none')).status, 404)
  for (const path of ['/', '/consoles', '/v1/stats'])
    t.equal((await send(`/ops${path}`)).body.toString(), `passed on ${path}`)
})

t.test('the target of a request may be a whole URL', async (t) => {
  const send = await listen(t, createServer(createConsole()))
  t.equal((await send('http://localhost/console/app.js?a')).status, 200)
})

t.test('a server with a console responds to its paths, and one without passes them to the next handler', async (t) => {
  for (const [options, expected] of [
    [{ console: createConsole() }, 200],
    [{}, 299],
  ] as const) {
    const handler = createHandler(openIngest(), options)
    const send = await listen(
      t,
      createServer((req, res) => handler(req, res, () => res.writeHead(299).end())),
    )
    t.equal((await send('/console/')).status, expected)
    for (const path of ['/', '/other']) t.equal((await send(path)).status, 299)
  }
})

t.test('a server without a console has no such path', async (t) => {
  const handle = toFetchHandler(openIngest())
  for (const path of ['/', '/console', '/console/']) {
    const response = await handle(new Request(`http://localhost${path}`))
    t.match(await response.json(), { status: 404, code: 'not-found' })
  }
})

t.test('a server gives responses of the console a request id, counts them as one route, and drains', async (t) => {
  const ingest = openIngest()
  const metrics = createMetrics(ingest)
  const draining = new AbortController()
  const logged: object[] = []
  const log = { debug: (fields: object) => void logged.push(fields), info() {}, warn() {}, error() {} }
  const options = { console: createConsole(), metrics, log, draining: draining.signal }
  const send = await listen(t, createServer(createHandler(ingest, options)))
  const first = await send('/console/app.js', { headers: { 'X-Request-Id': 'mine' } })
  t.match(first.headers, { 'x-request-id': 'mine', 'cache-control': 'no-cache' })
  draining.abort()
  const last = await send('/console/none')
  t.match(last.headers, { 'x-request-id': /^[\da-f-]{36}$/, connection: 'close' })
  t.match(logged, [
    { requestId: 'mine', route: '/console/', method: 'GET', status: 200 },
    { route: '/console/', status: 404 },
  ])
  const text = await metrics.render()
  t.match(text, 'ingest_http_requests_total{route="/console/",method="GET",status="200"} 1')
  t.match(text, 'ingest_http_requests_total{route="/console/",method="GET",status="404"} 1')
})

t.test('each file of the page is served, except source maps', async (t) => {
  const names = readdirSync(page).filter((name) => !name.endsWith('.map'))
  t.strictSame([...readPage().keys()].toSorted(), ['', ...names].toSorted())
})

t.test('a module whose name contains its hash is cached permanently', async (t) => {
  const { respond } = createConsole()
  const hashed = readdirSync(page).filter((name) => /-\w{8}\.js$/.test(name))
  t.ok(hashed.length > 5, 'each view is a module of its own')
  for (const name of hashed) {
    const response = respond({ method: 'GET', path: `/console/${name}`, headers: {} })
    t.match(response, { status: 200, headers: { 'Cache-Control': 'public, max-age=31536000, immutable' } }, name)
  }
})

t.test('a missing page is an error with a code', async (t) => {
  const directory = t.testdir({ empty: {} })
  for (const name of ['empty', 'none']) {
    t.throws(() => readPage(join(directory, name)), { code: 'console-not-built', message: name })
  }
})

t.test('the files of the page are at most 100 KB, compressed', async (t) => {
  const names = readdirSync(page)
  t.ok(names.length >= 4)
  const sizes = names.map((name) => gzipSync(readFileSync(join(page, name)), { level: 9 }).length)
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  t.ok(bytes <= 100 * 1024, `${bytes} bytes`)
})
