import { PassThrough, Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { type BatchResult, createIngest, type Ingest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import type { RejectedInput } from '../../src/import/prepare-events.ts'
import { type EventSubmitter, type SubmittedEvents, submitEvents } from '../../src/import/submit-events.ts'

const event = (i: number | string, more = '') => `{"projectId":"p","eventId":"e-${i}"${more}}`
const events = (count: number) => Array.from({ length: count }, (_, i) => event(i))
const nothing: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }

/** A source with chunks of that many bytes. */
async function* source(text: string, readBytes = 1000): AsyncGenerator<Uint8Array, void> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += readBytes) yield bytes.subarray(at, at + readBytes)
}

async function storedIn(ingest: Ingest): Promise<string[]> {
  const texts: string[] = []
  for await (const { bytes } of ingest.readEvents()) texts.push(bytes.toString())
  return texts
}

const openIngest = () => createIngest({ store: openMemoryStore() }).project('p')

/** An Ingest whose results come from `respond`. */
function openScripted(respond: (count: number, batch: number) => Promise<BatchResult> | BatchResult) {
  const batches: number[] = []
  let running = 0
  let most = 0
  const ingest: EventSubmitter = {
    projectId: 'p',
    async submitBatch(body, { signal } = {}) {
      const { length } = JSON.parse(body.toString()).events
      batches.push(length)
      most = Math.max(most, ++running)
      try {
        const result = await respond(length, batches.length - 1)
        signal?.throwIfAborted()
        return result
      } finally {
        running--
      }
    },
  }
  return { ingest, batches, most: () => most }
}

const accept = (count: number): BatchResult => ({ accepted: count, duplicates: 0, rejected: [] })

t.test('events of lines and arrays are stored byte for byte, and are duplicates the second time', async (t) => {
  const odd = '{ "eventId":"odd", "projectId" : "p","big":12345678901234567890123,"f":1.0 }'
  const texts = [...events(250), odd]
  for (const text of [`${texts.join('\n')}\n`, `[\n${texts.join(' ,\n')}\n]`]) {
    const ingest = openIngest()
    const bytes = Buffer.byteLength(text)
    const first = await submitEvents(ingest, source(text), { concurrency: 1 })
    t.strictSame(first, { ...nothing, bytes, events: 251, accepted: 251 })
    t.strictSame(await storedIn(ingest), texts, 'in their order, with one batch at a time')
    const again = await submitEvents(ingest, source(text))
    t.strictSame(again, { ...nothing, bytes, events: 251, duplicates: 251 })
  }
})

t.test('events of any size are stored by concurrent batches', async (t) => {
  const ingest = openIngest()
  const texts = Array.from({ length: 60 }, (_, i) => event(i, `,"x":"${'x'.repeat(i * 2000)}"`))
  const done = await submitEvents(ingest, source(texts.join('\n'), 100_000), { concurrency: 4 })
  t.match(done, { events: 60, accepted: 60 })
  t.strictSame((await storedIn(ingest)).sort(), [...texts].sort())
})

t.test('an empty source resolves', async (t) => {
  for (const text of ['', '\n', '[]']) {
    t.strictSame(await submitEvents(openIngest(), source(text)), { ...nothing, bytes: text.length })
  }
})

t.test('onRejected gets the line and bytes of rejected events; the others are stored', async (t) => {
  const ingest = openIngest()
  const rejected: RejectedInput[] = []
  const texts = [
    event(0),
    '{"n":1}',
    event(1, ',"buildId":7'),
    '{"a":',
    '{"eventId":"e-2","projectId":"other"}',
    event(3),
  ]
  const done = await submitEvents(ingest, source(texts.join('\n')), {
    async onRejected(some, form) {
      t.equal(form, 'lines')
      rejected.push(...some)
    },
  })
  t.match(done, { events: 6, accepted: 2, rejected: 4 })
  t.strictSame(
    rejected
      .sort((a, b) => a.at - b.at)
      .map(({ at, eventId, issues, event }) => [at, eventId, issues.map(({ code }) => code), event.toString()]),
    [
      [2, null, ['required'], '{"n":1}'],
      [3, 'e-1', ['invalid_type'], texts[2]],
      [4, null, ['not_object'], '"{\\"a\\":"'],
      [5, 'e-2', ['project_mismatch'], texts[4]],
    ],
  )
})

t.test('half an event or two events in a line are rejected', async (t) => {
  const halves = ['{"projectId":"p","eventId":"e-1","x":[1', '2]}']
  const two = `${event(2)},${event(3)}`
  for (const [texts, accepted] of [
    [[event(0), ...halves], 1],
    [[event(0), two, event(4)], 2],
    [[event(0), ...halves, two], 1],
  ] as const) {
    const ingest = openIngest()
    const rejected: number[] = []
    const done = await submitEvents(ingest, source(texts.map((text) => `${text}\n`).join('')), {
      onRejected: (some) => void rejected.push(...some.map(({ at }) => at)),
    })
    t.match(done, { events: texts.length, accepted, rejected: texts.length - accepted })
    t.equal(rejected.length, texts.length - accepted)
  }
})

t.test('an element that is not JSON ends an idle source, after the events before it', async (t) => {
  const ingest = openIngest()
  const stream = new PassThrough()
  const done = submitEvents(ingest, stream)
  stream.write(`[${event(0)},{"a":},${event(1)},`)
  await t.rejects(done, { code: 'malformed-body', message: /^Element 1 / })
  t.ok(stream.destroyed)
  t.strictSame(await storedIn(ingest), [event(0)])
})

t.test('makeIds generates missing ids, and a missing projectId is set', async (t) => {
  const ingest = openIngest()
  const text = '{"n":1}\n{"n":2,"eventId":"own"}'
  t.match(await submitEvents(ingest, source(text), { makeIds: true }), { accepted: 2, madeIds: 1 })
  t.match(await submitEvents(ingest, source(text), { makeIds: true }), { accepted: 1, duplicates: 1, madeIds: 1 })
  t.match(
    (await storedIn(ingest)).map((text) => JSON.parse(text)),
    [{ projectId: 'p', n: 1 }, { projectId: 'p', eventId: 'own' }, { n: 1 }],
  )
})

t.test('at most `concurrency` batches are in flight, and reading pauses for them', async (t) => {
  for (const concurrency of [1, 3]) {
    let read = 0
    let responses = 0
    async function* watched() {
      for await (const chunk of source(events(2000).join('\n'))) {
        read += chunk.length
        yield chunk
      }
    }
    const scripted = openScripted(async (count) => {
      for (let i = 0; i < 20; i++) await turn()
      responses++
      // batches in flight, one more batch, and one chunk of the source
      t.ok(read < (responses + concurrency + 1) * 100 * event(1999).length + 1000)
      return accept(count)
    })
    t.match(await submitEvents(scripted.ingest, watched(), { concurrency }), { accepted: 2000 })
    t.equal(scripted.most(), concurrency)
    t.strictSame(new Set(scripted.batches.slice(1, -1)), new Set([100]), 'all but the first and last batch are full')
  }
})

t.test('with no batch in flight, an incomplete batch is sent', async (t) => {
  const stream = new PassThrough()
  const scripted = openScripted(accept)
  const progress = { ...nothing }
  const done = submitEvents(scripted.ingest, stream, { onProgress: (now) => void Object.assign(progress, now) })
  for (let i = 0; i < 3; i++) {
    stream.write(`${event(i)}\n`)
    while (progress.events <= i) await turn()
  }
  t.strictSame(scripted.batches, [1, 1, 1])
  stream.end(events(250).join('\n'))
  t.match(await done, { events: 253 })
})

t.test('events that arrive during a batch are sent after it', async (t) => {
  const stream = new PassThrough()
  let respond = () => {}
  const first = new Promise<void>((resolve) => {
    respond = resolve
  })
  const scripted = openScripted(async (count, batch) => {
    if (batch === 0) await first
    return accept(count)
  })
  const progress = { ...nothing }
  const done = submitEvents(scripted.ingest, stream, { onProgress: (now) => void Object.assign(progress, now) })
  stream.write(`${event(0)}\n`)
  while (scripted.batches.length === 0) await turn()
  stream.write(`${event(1)}\n`)
  while (progress.bytes < 2 * (event(0).length + 1)) await turn()
  respond()
  while (progress.events < 2) await turn()
  stream.end()
  t.match(await done, { events: 2 })
  t.strictSame(scripted.batches, [1, 1])
})

t.test('the first failed batch ends the call, also while the source is idle', async (t) => {
  const failure = new Error('rejected')
  const scripted = openScripted(() => Promise.reject(failure))
  const stream = new PassThrough()
  stream.write(`${event(0)}\n`)
  await t.rejects(submitEvents(scripted.ingest, stream), failure)
  t.ok(stream.destroyed)
  const late = openScripted(async (count, batch) => (batch === 2 ? Promise.reject(failure) : accept(count)))
  await t.rejects(submitEvents(late.ingest, source(events(2000).join('\n')), { concurrency: 2 }), failure)
  t.ok(late.batches.length < 6, 'no further batches are sent')
})

t.test('a signal aborts with its reason, also while the source is idle', async (t) => {
  const controller = new AbortController()
  const reason = new Error('aborted by the test')
  const stream = new PassThrough()
  const { ingest, batches } = openScripted(accept)
  stream.write(`${event(0)}\n`)
  const done = submitEvents(ingest, stream, { signal: controller.signal })
  while (batches.length === 0) await turn()
  controller.abort(reason)
  await t.rejects(done, reason)
  await t.rejects(submitEvents(ingest, source(event(1)), { signal: controller.signal }), reason)
  t.strictSame(batches, [1])
})

t.test('the events before a fault of the source are submitted', async (t) => {
  const texts = events(150)
  const ingest = openIngest()
  await t.rejects(submitEvents(ingest, source(`[${texts.join()}`)), { code: 'malformed-body' })
  t.equal((await storedIn(ingest)).length, 149, 'all but the last, which may be incomplete')
  const failing = openIngest()
  async function* cut() {
    yield* source(`${texts.join('\n')}\n`)
    throw new Error('cut')
  }
  await t.rejects(submitEvents(failing, Readable.from(cut())), { message: 'cut' })
  t.equal((await storedIn(failing)).length, 150)
})

t.test('a result that lacks an outcome is unexpected-response', async (t) => {
  const { ingest } = openScripted((count) => accept(count - 1))
  await t.rejects(submitEvents(ingest, source(event(0))), { code: 'unexpected-response' })
})

t.test('an error of a callback ends the call', async (t) => {
  const own = new Error('full')
  const fail = () => {
    throw own
  }
  await t.rejects(submitEvents(openIngest(), source('{"n":1}'), { onRejected: fail }), own)
  await t.rejects(submitEvents(openIngest(), source(event(0, ',"buildId":7')), { onRejected: fail }), own)
  await t.rejects(submitEvents(openIngest(), source(event(0)), { onProgress: fail }), own)
})

t.test('an invalid concurrency throws', async (t) => {
  for (const concurrency of [0, 1.5, Number.NaN]) {
    await t.rejects(submitEvents(openIngest(), source(''), { concurrency }), { code: 'invalid-argument' })
  }
})

t.test('progress includes rejected events of the last batch', async (t) => {
  for (const last of ['{"a":1}', '{"a":1}\n', `${events(150).join('\n')}\n${'{"a":1}\n'.repeat(150)}`]) {
    const progress = { ...nothing }
    const done = await submitEvents(openIngest(), source(last, 1e6), {
      onProgress: (now) => void Object.assign(progress, now),
    })
    t.strictSame(progress, done)
  }
})
