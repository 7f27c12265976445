import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { digestOf } from '@ingest/core'
import t, { type Test } from 'tap'
import { encodeChunks } from '../../src/chunks/chunk-encoding.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { decodeRecord } from '../../src/log/record.ts'
import type { PutMap } from '../../src/maps/map-commands.ts'
import { versionOfNone } from '../../src/maps/map-reader.ts'
import type { Outcome } from '../../src/threads/request-loop.ts'
import type { CloseMessage } from '../../src/threads/worker-thread.ts'
import { type FromWriter, runWriter, type WriterRequest } from '../../src/writer/writer.ts'
import { startStoreProcess } from '../store-process.ts'
import { batchToAppend, fingerprintsFor, openWriterBed, putProject, recordAt, type WriterBed } from '../writer-bed.ts'

type Request = WriterRequest

interface Talk extends WriterBed {
  /** Sends all at once, and resolves with their outcomes, in this order. */
  ask(...requests: Request[]): Promise<Outcome[]>
  /** All messages of the writer. */
  said: FromWriter[]
  /** How many transactions were committed. */
  transactions(): number
  port: MessagePort
  ended: Promise<void>
  end(): Promise<void>
}

/** A guard without effect: this thread is never ended. */
const openGate = { enterNative() {}, leaveNative() {} }

async function start(directory: string, entriesPerFlush?: number): Promise<Talk> {
  const bed = await openWriterBed(directory, entriesPerFlush)
  const { root } = bed.environment
  const { port1: port, port2 } = new MessageChannel()
  const said: FromWriter[] = []
  let listeners: (() => void)[] = []
  port.on('message', (message: FromWriter) => {
    said.push(message)
    const all = listeners
    listeners = []
    for (const listener of all) listener()
  })
  const ended = runWriter(port2, bed.environment, bed.data, openGate)

  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => listeners.push(resolve))
  }

  await until(() => said.some(({ type }) => type === 'ready'))
  return {
    ...bed,
    port,
    said,
    ended,
    transactions: () => (root.getStats() as { lastTxnId: number }).lastTxnId,
    async ask(...requests) {
      const find = ({ id }: Request) =>
        said
          .flatMap((message) => (message.type === 'settled' ? message.outcomes : []))
          .find((outcome) => outcome.id === id)
      for (const request of requests) port.postMessage([request])
      await until(() => requests.every(find))
      return requests.map((request) => find(request) as Outcome)
    },
    async end() {
      port.postMessage({ type: 'close' } satisfies WriterRequest | CloseMessage)
      await ended
      port.close()
      await bed.environment.close()
    },
  }
}

let lastId = 0

function append(eventIds: string[], batch = batchToAppend(1, eventIds)): Request {
  return { type: 'append', id: ++lastId, ...batch }
}

function put(projectId: string, createdAt: number, createdBefore?: number): Request {
  return { type: 'command', id: ++lastId, command: putProject(projectId, createdAt, createdBefore) }
}

function locate(eventIds: string[], project = 1): Request {
  return { type: 'locate', id: ++lastId, project, eventIds, fingerprints: fingerprintsFor(project, eventIds) }
}

const idsOf = (name: string | number, count = 10) => Array.from({ length: count }, (_, i) => `${name}-${i}`)
const valuesOf = (outcomes: Outcome[]) => outcomes.map((each) => ('value' in each ? each.value : each.error.code))
/** A record whose header counts more events than it holds. */
const broken = () => ({ ...batchToAppend(1, ['x', 'y']), body: new Uint8Array(30) })

t.test('queued requests share a transaction, in their order, and each has an outcome of its own', async (t) => {
  const writer = await start(t.testdir())
  const before = writer.transactions()
  const outcomes = await writer.ask(
    append(['a', 'b']),
    put('one', 1),
    append(['b', 'c']),
    append(['a', 'b']),
    put('one', 2, 1),
    put('one', 3, 1),
    put('two', 4),
  )
  t.strictSame(valuesOf(outcomes), [
    'all',
    true,
    { duplicates: [0], conflicts: 0, frozen: [] },
    'none',
    true,
    false,
    true,
  ])
  t.equal(writer.transactions() - before, 1, 'one transaction for seven requests')
  t.strictSame(writer.sequences(), [1, 2])
  t.strictSame(writer.projects(), { one: 2, two: 4 })
  await writer.end()
})

t.test('events are located by what is committed', async (t) => {
  const writer = await start(t.testdir())
  await writer.ask(append(['a', 'b']), append(['c']))
  const [found] = valuesOf(await writer.ask(locate(['c', 'none', 'b'])))
  t.strictSame(found, [{ sequence: 2, index: 0 }, undefined, { sequence: 1, index: 1 }])
  t.strictSame(valuesOf(await writer.ask(locate(['a'], 2))), [[undefined]], 'it is another project’s')
  t.strictSame(valuesOf(await writer.ask(append(['d']), locate(['d']))).at(1), [undefined], 'not committed yet')
  t.strictSame(valuesOf(await writer.ask(locate(['d']))), [[{ sequence: 3, index: 0 }]])
  await writer.end()
})

t.test('a request that throws is refused alone, and leaves nothing behind', async (t) => {
  const writer = await start(t.testdir())
  await writer.ask(append(['before']))
  const group = [append(['a']), put('one', 1), append(['x'], broken()), append(['b', 'a']), append(['c'])]
  t.strictSame(valuesOf(await writer.ask(...group)), [
    'all',
    true,
    'internal-error',
    { duplicates: [1], conflicts: 0, frozen: [] },
    'all',
  ])
  t.strictSame(writer.sequences(), [1, 2, 3, 4])
  t.strictSame(writer.projects(), { one: 1 })
  // the index has forgotten it, too
  t.strictSame(valuesOf(await writer.ask(locate(['x', 'c']))), [[undefined, { sequence: 4, index: 0 }]])
  t.strictSame(valuesOf(await writer.ask(append(['x']))), ['all'])
  await writer.end()
})

t.test('an event that another process appends at a rolled-back sequence is known', async (t) => {
  const writer = await start(t.testdir())
  const { root, table } = writer.environment
  await writer.ask(append(['before']))
  t.strictSame(valuesOf(await writer.ask(append(['x'], broken()))), ['internal-error'])
  const others = recordAt(2, ['b'], 2_000)
  root.transactionSync(() => void table('log').put(sequenceKey(2), others))
  t.strictSame(valuesOf(await writer.ask(locate(['x', 'b']))), [[undefined, { sequence: 2, index: 0 }]])
  t.strictSame(valuesOf(await writer.ask(append(['b']))), ['none'])
  t.strictSame(valuesOf(await writer.ask(append(['c']))), ['all'])
  root.resetReadTxn()
  const last = decodeRecord(table('log').getBinary(sequenceKey(3)), 3)
  t.equal(last.receivedAt, 2_000, 'and no record is older than the one before it')
  await writer.end()
})

t.test('a group is bounded by its bytes', async (t) => {
  const writer = await start(t.testdir())
  const before = writer.transactions()
  const large = idsOf('large', 6).map((eventId) => {
    const batch = batchToAppend(1, [eventId])
    const body = new Uint8Array(10 * 2 ** 20)
    body.set(batch.body)
    return append([eventId], { ...batch, body })
  })
  t.strictSame(valuesOf(await writer.ask(...large)), Array(6).fill('all'))
  const count = writer.transactions() - before
  t.ok(count >= 3, `${count} transactions for 60 MiB`)
  t.strictSame(writer.sequences(), [1, 2, 3, 4, 5, 6])
  await writer.end()
})

t.test('a group is bounded by the chunks of its manifests', async (t) => {
  const writer = await start(t.testdir())
  await writer.ask(put('p', 1))
  const before = writer.transactions()
  const chunks = Array.from({ length: 3_000 }, (_, i) => ({ digest: digestOf(Buffer.from(`${i}`)), size: 1 }))
  const manifest = { contentType: 'a/b', size: 3_000, digest: digestOf(), chunks: encodeChunks(chunks) }
  const puts = ['1', '2', '3', '4'].map((placeId): Request => {
    const command: PutMap = {
      type: 'putMap',
      projectId: 'p',
      project: 1,
      map: { placeId, buildId: 'b' },
      version: versionOfNone,
      digests: Buffer.alloc(0),
      present: Buffer.alloc(0),
      complete: undefined,
      pending: { manifest, touchedAt: 1 },
      uploads: new Map(),
      collections: 0,
    }
    return { type: 'command', id: ++lastId, command }
  })
  t.strictSame(valuesOf(await writer.ask(...puts)), Array(4).fill('written'))
  t.equal(writer.transactions() - before, 2)
  await writer.end()
})

/** Appends until the index is full; it has no capacity until the returned process ends. */
async function fillIndex(t: Test) {
  const directory = t.testdir()
  const holder = await startStoreProcess(directory)
  const writer = await start(directory, 10)
  await holder.ask('hold-ids')
  const asked: Promise<Outcome[]>[] = []
  while (!writer.said.some(({ type }) => type === 'alive')) {
    asked.push(writer.ask(append(idsOf(asked.length))))
    await new Promise((resolve) => setTimeout(resolve, 20))
    if (asked.length > 200) throw new Error('the index never got full')
  }
  return { holder, writer, asked }
}

t.test('without capacity in the index the writer waits, and reports that', async (t) => {
  const { holder, writer, asked } = await fillIndex(t)
  t.ok(writer.sequences().length < asked.length, 'not all are written')
  await holder.kill()
  t.strictSame((await Promise.all(asked)).flatMap(valuesOf), Array(asked.length).fill('all'))
  t.equal(writer.sequences().length, asked.length)
  await writer.end()
})

t.test('only appends wait for the index: other writes and reads overtake them', async (t) => {
  const { holder, writer, asked } = await fillIndex(t)
  t.strictSame(valuesOf(await writer.ask(put('one', 1), locate(['0-0', 'none']))), [
    true,
    [{ sequence: 1, index: 0 }, undefined],
  ])
  t.strictSame(writer.projects(), { one: 1 })
  t.ok(writer.sequences().length < asked.length, 'appends still wait')
  await holder.kill()
  t.strictSame((await Promise.all(asked)).flatMap(valuesOf), Array(asked.length).fill('all'))
  await writer.end()
})

t.test('a writer that is closed while appends wait for the index writes them first', async (t) => {
  const { holder, writer, asked } = await fillIndex(t)
  const ended = writer.end()
  await holder.kill()
  await ended
  t.strictSame((await Promise.all(asked)).flatMap(valuesOf), Array(asked.length).fill('all'))
})

t.test('requests that wait too long for the index are refused, and the writer continues', async (t) => {
  const { holder, writer, asked } = await fillIndex(t)
  const now = Date.now
  // each call advances the clock by a second
  let ahead = 0
  Date.now = () => {
    ahead += 1000
    return now() + ahead
  }
  const values = (await Promise.all(asked)).flatMap(valuesOf)
  Date.now = now
  const refused = values.filter((each) => each === 'overloaded').length
  t.ok(refused > 0)
  t.equal(writer.sequences().length, asked.length - refused, 'no refused batch is written')
  await holder.kill()
  const retried = await Promise.all(asked.map((_, n) => writer.ask(append(idsOf(n)))))
  t.strictSame(
    retried.flatMap(valuesOf),
    values.map((each) => (each === 'overloaded' ? 'all' : 'none')),
  )
  await writer.end()
})

t.test('the writer reports the progress of catching up the index', async (t) => {
  const directory = t.testdir()
  const first = await start(directory, 10)
  for (let i = 0; i < 20; i++) await first.ask(append(idsOf(i)))
  await first.end()
  rmSync(join(directory, 'ids'), { recursive: true })
  mkdirSync(join(directory, 'ids'))
  const again = await start(directory, 10)
  const reported = again.said.flatMap((message) => (message.type === 'progress' ? [message.progress] : []))
  t.ok(reported.length > 0)
  t.ok(reported.every(({ done, total }) => done < 20 && total === 20))
  t.strictSame(valuesOf(await again.ask(append(['0-0', '19-9', 'new']))), [
    { duplicates: [0, 1], conflicts: 0, frozen: [] },
  ])
  await again.end()
})
