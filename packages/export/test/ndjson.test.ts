import { Readable } from 'node:stream'
import { eventLine, type StoredEvent } from '@ingest/core'
import t from 'tap'
import { ndjson } from '../src/ndjson.ts'

const { encode } = ndjson()

async function* from<E>(events: readonly E[], failure?: Error) {
  yield* events
  if (failure) throw failure
}

const events = Array.from({ length: 3000 }, (_, i): StoredEvent => {
  return { cursor: `c-${i}`, receivedAt: i, bytes: Buffer.from(`{"text":"${'x'.repeat(i % 100)}"}`) }
})
const textOf = (events: readonly StoredEvent[]) => Buffer.concat(events.map(eventLine)).toString()

t.test('NDJSON is yielded in chunks of many lines; lines before an error are yielded first', async (t) => {
  const chunks = await Readable.from(encode(from(events))).toArray()
  t.equal(Buffer.concat(chunks).toString(), textOf(events))
  t.ok(chunks.length > 1 && chunks.length < 10)
  for (const some of [events.slice(0, 3), events, []]) {
    const failure = new Error('damaged')
    const chunks: Uint8Array[] = []
    const encoding = (async () => {
      for await (const chunk of encode(from(some, failure))) chunks.push(chunk)
    })()
    await t.rejects(encoding, failure)
    t.strictSame([chunks.length > 0, Buffer.concat(chunks).toString()], [some.length > 0, textOf(some)])
  }
})
