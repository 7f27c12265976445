import t from 'tap'
import { parsers } from '../../src/uploads/parse-upload.ts'
import { parseUpload, smallBytesMax } from '../../src/uploads/upload-parser.ts'

const padding = ' '.repeat(smallBytesMax)
const data = Buffer.from('data').toString('base64')
const digest = `sha256:${'0'.repeat(64)}`

const bodies = {
  publication: [
    { placeId: '1', buildId: 'b', map: { ü: [1.5, null, { a: 'x'.repeat(9) }] } },
    { placeId: 1, buildId: 'b', manifest: { contentType: 'a/b', size: 4, digest, chunks: [{ digest, size: 4 }] } },
    { placeId: '1', buildId: 'b', manifest: { contentType: 'a/b', size: 5, digest, chunks: [{ digest, size: 4 }] } },
    { placeId: '', map: 1 },
    [],
  ],
  chunks: [{ chunks: [{ digest, data }, { digest: 1, data: '?' }, 7] }, { chunks: [] }, { chunks: Array(65).fill(0) }],
}

/** The value with bytes, of whichever class, as hex digits. */
function withHex(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (Array.isArray(value)) return value.map(withHex)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withHex(member)]))
}

/** The result or the error, as comparable values. */
async function outcomeOf(parse: () => unknown): Promise<unknown> {
  try {
    return withHex(await parse())
  } catch (error) {
    const { name, code, message, issues, limit, actual } = error as Record<string, unknown>
    return { name, code, message, issues, limit, actual }
  }
}

t.test('a large body is parsed by the thread as a small one is without it', async (t) => {
  const texts = (['publication', 'chunks'] as const).flatMap((kind) => [
    ...bodies[kind].map((body) => [kind, JSON.stringify(body)] as const),
    [kind, '{'] as const,
    [kind, '\ufeff{}'] as const,
  ])
  for (const [kind, text] of texts) {
    const large = Buffer.from(text + padding)
    t.ok(large.length > smallBytesMax)
    const [byThread, here] = await Promise.all([
      outcomeOf(() => parseUpload('p', kind, large)),
      outcomeOf(() => parsers[kind](large)),
    ])
    t.strictSame(byThread, here, `${kind} ${text}`)
  }
})

t.test('the event loop goes on while a large body is parsed', async (t) => {
  const map = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`name ${i}`, i]))
  const body = Buffer.from(JSON.stringify({ placeId: '1', buildId: 'b', map }))
  let turns = 0
  let isDone = false
  const parsing = parseUpload('p', 'publication', body).finally(() => {
    isDone = true
  })
  while (!isDone) {
    await new Promise((resolve) => setImmediate(resolve))
    turns++
  }
  t.equal((await parsing).uploads?.length, 2)
  // without the thread, the parse is one turn
  t.ok(turns > 10, `${turns} turns`)
})
