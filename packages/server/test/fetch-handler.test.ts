import { batchBytesMax } from '@ingest/core'
import t from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import { batchOf, openTestIngest } from './test-ingest.ts'

const url = 'http://localhost/v1/events/batch'

t.test('a body may be a stream of any chunks', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const chunks = batchOf(5).match(/.{1,7}/g) ?? []
  const body = new ReadableStream({
    pull(controller) {
      const chunk = chunks.shift()
      if (chunk === undefined) controller.close()
      else controller.enqueue(Buffer.from(chunk))
    },
  })
  const response = await toFetchHandler(ingest)(new Request(url, { method: 'POST', headers, body, duplex: 'half' }))
  t.equal(response.status, 202)
  t.strictSame(await response.json(), { accepted: 5, duplicates: 0, rejected: [] })
  t.equal(await storedCount(), 5)
})

t.test('an endless stream is read up to the limit and cancelled', async (t) => {
  const { ingest, headers } = await openTestIngest()
  let enqueued = 0
  let isCanceled = false
  const body = new ReadableStream({
    pull(controller) {
      controller.enqueue(Buffer.alloc(10_000))
      enqueued += 10_000
    },
    cancel() {
      isCanceled = true
    },
  })
  const response = await toFetchHandler(ingest)(new Request(url, { method: 'POST', headers, body, duplex: 'half' }))
  t.equal(response.status, 413)
  t.ok(isCanceled)
  t.ok(enqueued < batchBytesMax + 40_000)
})

t.test('a stream that fails is a 408, not a malformed batch', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from(batchOf(1)))
    },
    pull(controller) {
      controller.error(new Error('gone'))
    },
  })
  const response = await toFetchHandler(ingest)(new Request(url, { method: 'POST', headers, body, duplex: 'half' }))
  t.equal(response.status, 408)
  t.match(await response.json(), { code: 'request-timeout', retryable: true })
  t.equal(await storedCount(), 0)
})

t.test('a consumed body is a 500 that names the fix', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const request = new Request(url, { method: 'POST', headers, body: batchOf(1) })
  await request.json()
  const response = await toFetchHandler(ingest)(request)
  t.equal(response.status, 500)
  t.match(await response.json(), { code: 'internal-error', detail: /before the body parser/ })
})

t.test('a Content-Length that is not a number is refused', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const pairs: [string, string][] = [...headers, ['Content-Length', 'many']]
  const response = await toFetchHandler(ingest)(new Request(url, { method: 'POST', headers: pairs, body: batchOf(1) }))
  t.equal(response.status, 400)
  t.match(await response.json(), { code: 'malformed-request' })
})

t.test('a parameter of the media type may have a comma in quotes', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const handler = toFetchHandler(ingest)
  for (const [contentType, status] of [
    ['application/json; profile="a,b"', 202],
    ['application/json; profile="a,b", application/json', 400],
  ] as const) {
    const sent = new Headers(headers)
    sent.set('Content-Type', contentType)
    const response = await handler(new Request(url, { method: 'POST', headers: sent, body: batchOf(1) }))
    t.equal(response.status, status, contentType)
  }
})

t.test('a request without a body has an empty body', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const response = await toFetchHandler(ingest)(new Request(url, { method: 'POST', headers }))
  t.equal(response.status, 400)
  t.match(await response.json(), { code: 'malformed-body' })
})
