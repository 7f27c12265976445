import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, digestOf } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { toFetchHandler } from '@ingest/server'
import t from 'tap'

const silent = { debug() {}, info() {}, warn() {}, error() {}, isLevelEnabled: () => false }

t.test('damaged bytes of a map are refused with store-damaged, and not to be cached', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const project = ingest.project('p')
  const content = { walls: 'undamaged '.repeat(100) }
  await project.publishMap({ placeId: '1', buildId: 'b', map: content })
  await project.submitBatch({ events: [{ projectId: 'p', eventId: 'freezes', buildId: 'b' }] })
  const { key } = await ingest.keys.create('p')
  await ingest.close()
  const path = join(directory, 'chunks', 'data.mdb')
  writeFileSync(path, readFileSync(path, 'latin1').replaceAll('undamaged ', 'undamagEd '), 'latin1')

  const again = createIngest({ store: await openLmdbStore(directory) })
  t.teardown(() => again.close())
  const handle = toFetchHandler(again, { log: silent })
  const digest = digestOf(Buffer.from(JSON.stringify(content)))
  for (const [target, range] of [
    ['content?placeId=1&buildId=b', undefined],
    ['content?placeId=1&buildId=b', 'bytes=0-9'],
    [`chunks?digest=${digest}`, undefined],
  ] as const) {
    const headers = { 'X-Project-Id': 'p', 'X-Ingestion-Key': key, ...(range && { Range: range }) }
    const response = await handle(new Request(`http://localhost/v1/maps/${target}`, { headers }))
    t.equal(response.status, 500)
    t.match(await response.json(), { code: 'store-damaged' })
    t.notMatch(response.headers.get('Cache-Control') ?? '', /immutable/)
    t.equal(response.headers.get('ETag'), null)
  }
})
