import { IngestError } from '@ingest/core'
import t from 'tap'
import { createApi } from '../../src/calls/api.ts'
import type { ApiRequest, Patience, Reply } from '../../src/http/connection.ts'
import { createRetrier } from '../../src/http/retry.ts'

/** An Api over replies that are given, and what became of each. */
function open(...replies: { status: number; parts: (string | Error)[] }[]) {
  const requests: ApiRequest[] = []
  const patiences: Patience[] = []
  const left: number[] = []
  const connection = {
    async send(request: ApiRequest, patience: Patience): Promise<Reply> {
      const turn = requests.push(request) - 1
      patiences.push(patience)
      const { status, parts } = replies[turn] as (typeof replies)[number]
      const body = (async function* () {
        for (const part of parts) {
          if (part instanceof Error) throw part
          yield Buffer.from(part)
        }
      })()
      return { status, headers: {}, body, leave: () => void left.push(turn) }
    },
    async close() {},
  }
  const limits = { retries: 2, tryTimeoutMs: 30_000, timeoutMs: 120_000 }
  const retrier = createRetrier(limits, { sleep: async () => {}, now: () => 0 })
  return { api: createApi(connection, retrier), requests, patiences, left }
}

const broken = new IngestError('connection-failed', 'broken')
const call = { method: 'GET', path: '/v1/maps', expect: [200, 202] } as const

t.test('an answer comes whole, or is asked for again', async (t) => {
  const { api, requests, patiences } = open(
    { status: 200, parts: ['half', broken] },
    { status: 202, parts: ['who', 'le'] },
  )
  const { status, body } = await api.call({ ...call, method: 'PUT', body: Buffer.from('the same') })
  t.strictSame([status, Buffer.from(body).toString()], [202, 'whole'])
  t.strictSame(
    requests.map(({ body }) => Buffer.from(body as Uint8Array).toString()),
    ['the same', 'the same'],
  )
  t.match(patiences[0], { timeoutMs: 30_000, isStream: false })
})

t.test('a success that is not the one of the request is unexpected, and its body is left', async (t) => {
  const { api, requests, left } = open({ status: 204, parts: [] })
  await t.rejects(api.call(call), { code: 'unexpected-answer', message: /204/ })
  t.strictSame([requests.length, left], [1, [0]])
})

t.test('an answer without end is not read', async (t) => {
  const { api } = open({ status: 200, parts: Array(100).fill('x'.repeat(1024 * 1024)) })
  await t.rejects(api.call(call), { code: 'unexpected-answer' })
})

t.test('a stream is asked for again where it broke', async (t) => {
  const { api, requests, patiences } = open(
    { status: 200, parts: ['a', 'b', broken] },
    { status: 200, parts: [broken] },
    { status: 200, parts: ['c'] },
  )
  const items: string[] = []
  const next = () => ({ ...call, query: { after: items.length } })
  async function* read({ body }: Reply) {
    for await (const part of body) yield Buffer.from(part).toString()
  }
  for await (const item of api.stream(next, read)) items.push(item)
  t.strictSame(items, ['a', 'b', 'c'])
  t.strictSame(
    requests.map(({ query }) => query?.after),
    [0, 2, 2],
  )
  t.match(patiences[0], { isStream: true })
})
