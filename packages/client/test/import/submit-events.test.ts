import { PassThrough, Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { type BatchResult, createIngest, type Ingest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import type { RejectedInput } from '../../src/import/prepare-events.ts'
import { type EventSubmitter, type SubmittedEvents, submitEvents } from '../../src/import/submit-events.ts'

const event = (i: number | string, more = '') => `{"projectId":"p","eventId":"e-${i}"${more}}`
const events = (count: number) => Array.from({ length: count }, (_, i) => event(i))
const nothing: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }

/** A source that comes in pieces of so many bytes. */
async function* source(text: string, pieceBytes = 1000): AsyncGenerator<Uint8Array, void> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

async function storedIn(ingest: Ingest): Promise<string[]> {
  const texts: string[] = []
  for await (const { bytes } of ingest.readEvents()) texts.push(bytes.toString())
  return texts
}

const openIngest = () => createIngest({ store: openMemoryStore() }).project('p')

/** Takes batches, which wait until each is answered as `answer` says. */
function openScripted(answer: (count: number, batch: number) => Promise<BatchResult> | BatchResult) {
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
        const result = await answer(length, batches.length - 1)
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

t.test('all events of lines or of an array are stored, byte for byte, and again they are duplicates', async (t) => {
  const odd = '{ "eventId":"odd", "projectId" : "p","big":12345678901234567890123,"f":1.0 }'
  const texts = [...events(250), odd]
  for (const text of [`${texts.join('\n')}\n`, `[\n${texts.join(' ,\n')}\n]`]) {
    const ingest = openIngest()
    const bytes = Buffer.byteLength(text)
    const first = await submitEvents(ingest, source(text), { concurrency: 1 })
    t.strictSame(first, { ...nothing, bytes, events: 251, accepted: 251 })
    t.strictSame(await storedIn(ingest), texts, 'in their order, as there was one batch at a time')
    const again = await submitEvents(ingest, source(text))
    t.strictSame(again, { ...nothing, bytes, events: 251, duplicates: 251 })
  }
})

t.test('each event is in one batch, whatever its size, and several are in flight', async (t) => {
  const ingest = openIngest()
  const texts = Array.from({ length: 60 }, (_, i) => event(i, `,"x":"${'x'.repeat(i * 2000)}"`))
  const done = await submitEvents(ingest, source(texts.join('\n'), 100_000), { concurrency: 4 })
  t.match(done, { events: 60, accepted: 60 })
  t.strictSame((await storedIn(ingest)).sort(), [...texts].sort())
})

t.test('nothing at all is done at once', async (t) => {
  for (const text of ['', '\n', '[]']) {
    t.strictSame(await submitEvents(openIngest(), source(text)), { ...nothing, bytes: text.length })
  }
})

t.test('what is rejected is told, with its place and its bytes, and keeps nothing out', async (t) => {
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

t.test('ids are made for those that have none, and a projectId', async (t) => {
  const ingest = openIngest()
  const text = '{"n":1}\n{"n":2,"eventId":"own"}'
  t.match(await submitEvents(ingest, source(text), { makeIds: true }), { accepted: 2, madeIds: 1 })
  t.match(await submitEvents(ingest, source(text), { makeIds: true }), { accepted: 1, duplicates: 1, madeIds: 1 })
  t.match(
    (await storedIn(ingest)).map((text) => JSON.parse(text)),
    [{ projectId: 'p', n: 1 }, { projectId: 'p', eventId: 'own' }, { n: 1 }],
  )
})

t.test('never more batches than asked for are in flight, and reading waits for them', async (t) => {
  for (const concurrency of [1, 3]) {
    let read = 0
    let answers = 0
    async function* watched() {
      for await (const piece of source(events(2000).join('\n'))) {
        read += piece.length
        yield piece
      }
    }
    const scripted = openScripted(async (count) => {
      for (let i = 0; i < 20; i++) await turn()
      answers++
      // what is in flight, one more batch, and what one piece may hold
      t.ok(read < (answers + concurrency + 1) * 100 * event(1999).length + 1000)
      return accept(count)
    })
    t.match(await submitEvents(scripted.ingest, watched(), { concurrency }), { accepted: 2000 })
    t.equal(scripted.most(), concurrency)
    t.strictSame(new Set(scripted.batches.slice(1, -1)), new Set([100]), 'and those in between are full')
  }
})

t.test('while nothing is in flight, nothing waits for a full batch', async (t) => {
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

t.test('what comes while a batch is in flight goes when it is answered, though nothing else comes', async (t) => {
  const stream = new PassThrough()
  let answer = () => {}
  const first = new Promise<void>((resolve) => {
    answer = resolve
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
  answer()
  while (progress.events < 2) await turn()
  stream.end()
  t.match(await done, { events: 2 })
  t.strictSame(scripted.batches, [1, 1])
})

t.test('the first failure ends it, also while the source gives nothing, and is what it rejects with', async (t) => {
  const refusal = new Error('refused')
  const scripted = openScripted(() => Promise.reject(refusal))
  const stream = new PassThrough()
  stream.write(`${event(0)}\n`)
  await t.rejects(submitEvents(scripted.ingest, stream), refusal)
  t.ok(stream.destroyed)
  const late = openScripted(async (count, batch) => (batch === 2 ? Promise.reject(refusal) : accept(count)))
  await t.rejects(submitEvents(late.ingest, source(events(2000).join('\n')), { concurrency: 2 }), refusal)
  t.ok(late.batches.length < 6, 'and no further batches are sent')
})

t.test('a signal ends it with its reason, also while the source gives nothing', async (t) => {
  const controller = new AbortController()
  const reason = new Error('no longer wanted')
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

t.test('a source that is broken, or fails: what stands before is submitted', async (t) => {
  const texts = events(150)
  const ingest = openIngest()
  await t.rejects(submitEvents(ingest, source(`[${texts.join()}`)), { code: 'malformed-body' })
  t.equal((await storedIn(ingest)).length, 149, 'all but the last, of which nobody knows whether it is whole')
  const failing = openIngest()
  async function* cut() {
    yield* source(`${texts.join('\n')}\n`)
    throw new Error('cut')
  }
  await t.rejects(submitEvents(failing, Readable.from(cut())), { message: 'cut' })
  t.equal((await storedIn(failing)).length, 150)
})

t.test('an answer that does not say what became of each event is none', async (t) => {
  const { ingest } = openScripted((count) => accept(count - 1))
  await t.rejects(submitEvents(ingest, source(event(0))), { code: 'unexpected-response' })
})

t.test('what a callback throws ends it', async (t) => {
  const own = new Error('full')
  const fail = () => {
    throw own
  }
  await t.rejects(submitEvents(openIngest(), source('{"n":1}'), { onRejected: fail }), own)
  await t.rejects(submitEvents(openIngest(), source(event(0, ',"buildId":7')), { onRejected: fail }), own)
  await t.rejects(submitEvents(openIngest(), source(event(0)), { onProgress: fail }), own)
})

t.test('concurrency is a whole number from 1', async (t) => {
  for (const concurrency of [0, 1.5, Number.NaN]) {
    await t.rejects(submitEvents(openIngest(), source(''), { concurrency }), { code: 'invalid-argument' })
  }
})
