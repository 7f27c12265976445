import { createIngest, type EmbeddedIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { openLmdbStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'

const small = { internals: { entriesPerFlush: 60 } }
const notLinux = process.platform !== 'linux' && 'who holds the write lock is known on Linux only'

async function start(t: Test, directory = t.testdir()) {
  // the clock stands still: activity is written when a minute ends
  const ingest = createIngest({ store: await openLmdbStore(directory, small), now: () => 0 })
  return { ingest, submit, measured: () => measuredOf(ingest) }

  function submit(name: string, count = 1, more = {}) {
    const events = Array.from({ length: count }, (_, i) => ({ projectId: 'p', eventId: `${name}-${i}`, ...more }))
    return ingest.project('p').submitBatch({ events })
  }
}

/** The values by name and labels. */
async function measuredOf(ingest: EmbeddedIngest): Promise<Record<string, number>> {
  const rows = (await ingest.measure()).flatMap(({ name, values }) =>
    values.map(({ labels = {}, value }) => [
      [name.slice('ingest_store_'.length), ...Object.values(labels)].join(' '),
      value,
    ]),
  )
  return Object.fromEntries(rows)
}

t.test('the log, the index and the files are measured', async (t) => {
  const { ingest, submit, measured } = await start(t)
  t.match(await measured(), { log_batches: 0, id_index_ids: 0, id_index_merges_total: 0 })
  for (let i = 0; i < 30; i++) await submit(`batch-${i}`, 30)
  let now = await measured()
  while (now.id_index_merges_total === 0) now = await measured()
  t.match(now, { log_batches: 30, id_index_ids: 900, queue_requests: 0, queue_bytes: 0, file_max_bytes: undefined })
  t.ok((now['id_index_runs 1'] as number) >= 1, 'runs that were merged')
  t.ok((now.id_index_unflushed_ids as number) < 900, 'the others are in runs')
  for (const of of ['events', 'ids', 'chunks']) {
    t.ok((now[`file_bytes ${of}`] as number) >= 4096, of)
    t.ok((now[`file_max_bytes ${of}`] as number) >= (now[`file_bytes ${of}`] as number), of)
  }
  t.ok((now['readers events'] as number) >= 1)
  t.equal(now['readers_max events'], 1000)
  t.ok((now.filesystem_free_bytes as number) < (now.filesystem_size_bytes as number))
  await ingest.close()
  await t.rejects(ingest.measure(), { code: 'store-closed' })
})

t.test('the age of a snapshot that another process reads is measured', async (t) => {
  const directory = t.testdir()
  const { ingest, submit, measured } = await start(t, directory)
  await submit('before')
  t.equal((await measured())['oldest_reader_transactions events'], 0)
  const reader = await startStoreProcess(directory)
  await reader.ask('look')
  for (let i = 0; i < 3; i++) await submit(`after-${i}`)
  t.equal((await measured())['oldest_reader_transactions events'], 3)
  await reader.kill()
  await submit('last')
  t.equal((await measured())['oldest_reader_transactions events'], 0)
  await ingest.close()
})

t.test('a store whose writer waits is measured', { skip: notLinux }, async (t) => {
  const directory = t.testdir()
  const { ingest, submit, measured } = await start(t, directory)
  await submit('before')
  const holder = await startStoreProcess(directory)
  await holder.ask('hold')
  await holder.stop()
  const waiting = submit('waiting')
  const now = await measured()
  t.equal(now.queue_requests, 1)
  t.ok((now.queue_bytes as number) > 0)
  // the writer still responds if it receives both requests together
  t.ok([undefined, 1].includes(now.log_batches as number | undefined))
  t.ok('file_bytes events' in now)
  await holder.kill()
  t.match(await waiting, { accepted: 1 })
  t.match(await measured(), { log_batches: 2, queue_requests: 0 })
  await ingest.close()
})
