import { Readable } from 'node:stream'
import t from 'tap'
import { encodeNdjson } from '../../src/export/encode-ndjson.ts'

const lines = Array.from({ length: 3000 }, (_, i) => Buffer.from(`{"i":${i},"text":"${'x'.repeat(i % 100)}"}\n`))

async function* from(items: Buffer[], failure?: Error) {
  for (const line of items) yield { line }
  if (failure) throw failure
}

t.test('pieces put together are the lines, and are fewer', async (t) => {
  const pieces = await Readable.from(encodeNdjson(from(lines))).toArray()
  t.equal(Buffer.concat(pieces).toString(), Buffer.concat(lines).toString())
  t.ok(pieces.length > 1 && pieces.length < 10)
})

t.test('no lines are no pieces', async (t) => {
  t.strictSame(await Readable.from(encodeNdjson(from([]))).toArray(), [])
})

t.test('what came before a failure comes before it', async (t) => {
  for (const some of [lines.slice(0, 3), lines, []]) {
    const failure = new Error('damaged')
    const pieces: Buffer[] = []
    const encoding = (async () => {
      for await (const piece of encodeNdjson(from(some, failure))) pieces.push(piece)
    })()
    await t.rejects(encoding, failure)
    t.equal(Buffer.concat(pieces).toString(), Buffer.concat(some).toString())
  }
})
