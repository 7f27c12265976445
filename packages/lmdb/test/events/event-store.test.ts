import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '@ingest/core'
import { encodeEvents } from '@ingest/core/internal'
import t from 'tap'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'

/** Appends a batch of one event; `bodyBytes` cuts the body, so that the writer cannot encode it. */
function append(store: Store, projectId: string, eventId: string, bodyBytes?: number) {
  const event = JSON.stringify({ projectId, eventId, buildId: 'b' })
  const text = `{"events":[${event}]}`
  const [start, idStart] = [text.indexOf(event), text.indexOf(`"${eventId}"`)]
  const slices = { start, end: start + event.length, idStart, idEnd: idStart + eventId.length + 2 }
  const events = encodeEvents([{ eventId, buildId: 'b', ...slices }], store.hashKey as Uint8Array)
  return store.append(projectId, { body: Buffer.from(text).subarray(0, bodyBytes), events, receivedAt: Date.now() })
}

t.test('a first append that is refused does not create its project', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  await append(store, 'known', 'e-1')
  await t.rejects(append(store, 'refused', 'e-1', 20), { code: 'internal-error' })
  t.strictSame(await store.projects(), ['known'])
  // without its index no event can be stored
  rmSync(join(directory, 'ids'), { recursive: true })
  await t.rejects(append(store, 'refused too', 'e-1'), { code: 'store-failed' })
  await store.close()
  const again = await openLmdbStore(directory)
  t.strictSame(await again.projects(), ['known'])
  await again.close()
})

t.test('of concurrent first appends of one event in a new project, exactly one stores it', async (t) => {
  const store = await openLmdbStore(t.testdir())
  const results = await Promise.all(Array.from({ length: 20 }, (_, i) => append(store, `p-${i % 2}`, 'e-1')))
  t.strictSame(results.map(({ stored: [isStored] }) => isStored).filter(Boolean).length, 2)
  t.strictSame(await store.projects(), ['p-0', 'p-1'])
  for (const projectId of ['p-0', 'p-1']) {
    t.strictSame(await store.known(projectId, ['e-1', 'e-2']), [true, false])
    t.equal((await append(store, projectId, 'e-1')).stored[0], false)
    t.equal((await store.totals(projectId)).events, 1)
  }
  await store.close()
})
