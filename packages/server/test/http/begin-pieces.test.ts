import t from 'tap'
import { isPieces, type Pieces } from '../../src/http/response.ts'
import { beginPieces } from '../../src/http/stream.ts'

async function begin(pieces: (string | Error)[]) {
  const seen = { given: 0, breaks: [] as unknown[], isEnded: false, isClosed: false }
  async function* source() {
    try {
      for (const piece of pieces) {
        if (piece instanceof Error) throw piece
        seen.given++
        yield Buffer.from(piece)
      }
    } finally {
      seen.isClosed = true
    }
  }
  const onEnd = () => {
    seen.isEnded = true
  }
  const begun = beginPieces(source(), { onBreak: (error) => seen.breaks.push(error), onEnd })
  return { seen, body: await begun.catch((error: Error) => error) }
}

t.test('a body of one piece, or of none, is there as a whole', async (t) => {
  for (const pieces of [[], ['a']]) {
    const { seen, body } = await begin(pieces)
    t.equal(String(body), pieces.join(''))
    t.match(seen, { isEnded: true, isClosed: true, breaks: [] })
  }
})

t.test('a longer one is read while it is sent, in order', async (t) => {
  const { seen, body } = await begin(['a', 'b', 'c', 'd'])
  t.equal(seen.given, 2)
  t.notOk(seen.isEnded)
  const read: string[] = []
  for await (const piece of body as Pieces) read.push(String(piece))
  t.strictSame(read, ['a', 'b', 'c', 'd'])
  t.match(seen, { isEnded: true, isClosed: true, breaks: [] })
  t.match(await (body as Pieces).next(), { done: true })
})

t.test('what fails in the beginning is thrown, and told to nobody else', async (t) => {
  const error = new Error('gone')
  for (const pieces of [[error], ['a', error]]) {
    const { seen, body } = await begin(pieces)
    t.equal(body, error)
    t.match(seen, { isEnded: true, isClosed: true, breaks: [] })
  }
})

t.test('what fails later is told, and thrown to the one who reads', async (t) => {
  const error = new Error('gone')
  const { seen, body } = await begin(['a', 'b', error])
  await t.rejects(async () => {
    for await (const _ of body as Pieces);
  }, error)
  t.match(seen, { isEnded: true, isClosed: true, breaks: [error] })
})

t.test('who stops early ends it, also before the first piece', async (t) => {
  for (const read of [0, 1, 3]) {
    const { seen, body } = await begin(['a', 'b', 'c', 'd'])
    t.ok(body instanceof Error === false && isPieces(body))
    const pieces = body as Pieces
    for (let i = 0; i < read; i++) t.notOk((await pieces.next()).done)
    t.notOk(seen.isEnded)
    await pieces.return()
    t.match(seen, { isEnded: true, isClosed: true, breaks: [] })
    t.match(await pieces.next(), { done: true })
  }
})
