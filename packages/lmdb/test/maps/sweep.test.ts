import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError, type MapKey } from '@ingest/core'
import t from 'tap'
import { openActivity } from '../../src/activity/activity-table.ts'
import { createSweep, type SweepOptions } from '../../src/maps/sweep.ts'
import { openLmdbStore } from '../built-store.ts'
import { manifestOf, openMapParts } from '../map-parts.ts'

const range = (count: number) => Array.from({ length: count }, (_, i) => i)

/** A store with pending maps that have expired at 2. */
async function openWithMaps(directory: string, count: number) {
  const store = await openLmdbStore(directory)
  const contents = { pending: { manifest: manifestOf(['a']), touchedAt: 1 } }
  const keys: MapKey[] = range(count).map((i) => ({ projectId: 'p', buildId: 'b', placeId: `${i}` }))
  await Promise.all(keys.map((key) => store.updateMap(key, {}, () => ({ contents, result: 1 }))))
  return store
}

t.test('a close ends a sweep of maps between two of them', async (t) => {
  const directory = t.testdir()
  const store = await openWithMaps(directory, 200)
  const swept = t.rejects(store.sweep({ mapsTouched: 2, activity: 0 }), { code: 'store-closed' })
  while ((await store.pendingTotals('p')).maps === 200) await nextTurn()
  await store.close()
  await swept
  const again = await openLmdbStore(directory)
  t.not((await again.pendingTotals('p')).maps, 0)
  await again.sweep({ mapsTouched: 2, activity: 0 })
  t.equal((await again.pendingTotals('p')).maps, 0)
  await again.close()
})

t.test('maps are swept although the activity cannot be', async (t) => {
  const directory = t.testdir()
  await (await openWithMaps(directory, 3)).close()
  const parts = await openMapParts(directory)
  t.teardown(parts.close)
  const { environment, readSnapshot } = parts
  const sweep = createSweep({
    ...parts,
    reader: { readSnapshot } as SweepOptions['reader'],
    slicedReads: () => ({ readSnapshot, nextStep: async () => ({ isOver: false }) }),
    activity: {
      ...openActivity(environment.table),
      expired() {
        throw new IngestError('store-damaged', 'A page is damaged.')
      },
    },
    checkOpen() {},
  })
  await t.rejects(sweep({ mapsTouched: 2, activity: 2 }), { code: 'store-damaged' })
  const project = parts.projects.numberOf('p') as number
  t.equal(readSnapshot(() => parts.maps.pendingTotals(project)).maps, 0)
})
