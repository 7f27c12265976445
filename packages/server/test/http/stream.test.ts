import t from 'tap'
import { isStream } from '../../src/http/response.ts'
import { type BodyStream, startStream } from '../../src/http/stream.ts'

async function start(chunks: (string | Error)[]) {
  const seen = { yielded: 0, errors: [] as unknown[], isEnded: false, isClosed: false }
  async function* source() {
    try {
      for (const chunk of chunks) {
        if (chunk instanceof Error) throw chunk
        seen.yielded++
        yield Buffer.from(chunk)
      }
    } finally {
      seen.isClosed = true
    }
  }
  const onEnd = () => {
    seen.isEnded = true
  }
  const started = startStream(source(), { onError: (error) => seen.errors.push(error), onEnd })
  return { seen, body: await started.catch((error: Error) => error) }
}

t.test('a body of at most one chunk is returned as bytes', async (t) => {
  for (const chunks of [[], ['a']]) {
    const { seen, body } = await start(chunks)
    t.equal(String(body), chunks.join(''))
    t.match(seen, { isEnded: true, isClosed: true, errors: [] })
  }
})

t.test('a longer body is a stream, in order, of which two chunks are read ahead', async (t) => {
  const { seen, body } = await start(['a', 'b', 'c', 'd'])
  t.equal(seen.yielded, 2)
  t.notOk(seen.isEnded)
  const read: string[] = []
  for await (const chunk of body as BodyStream) read.push(String(chunk))
  t.strictSame(read, ['a', 'b', 'c', 'd'])
  t.match(seen, { isEnded: true, isClosed: true, errors: [] })
  t.match(await (body as BodyStream).next(), { done: true })
})

t.test('an error in the first two chunks rejects, and is not reported to onError', async (t) => {
  const error = new Error('gone')
  for (const chunks of [[error], ['a', error]]) {
    const { seen, body } = await start(chunks)
    t.equal(body, error)
    t.match(seen, { isEnded: true, isClosed: true, errors: [] })
  }
})

t.test('a later error is reported to onError and thrown to the reader', async (t) => {
  const error = new Error('gone')
  const { seen, body } = await start(['a', 'b', error])
  await t.rejects(async () => {
    for await (const _ of body as BodyStream);
  }, error)
  t.match(seen, { isEnded: true, isClosed: true, errors: [error] })
})

t.test('a reader that stops early closes the source, also before the first chunk', async (t) => {
  for (const read of [0, 1, 3]) {
    const { seen, body } = await start(['a', 'b', 'c', 'd'])
    t.ok(body instanceof Error === false && isStream(body))
    const stream = body as BodyStream
    for (let i = 0; i < read; i++) t.notOk((await stream.next()).done)
    t.notOk(seen.isEnded)
    await stream.return()
    t.match(seen, { isEnded: true, isClosed: true, errors: [] })
    t.match(await stream.next(), { done: true })
  }
})
