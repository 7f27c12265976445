import { statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { digestOf } from '@ingest/core'
import t from 'tap'
import { checkDataFile } from '../../src/environment/data-file.ts'
import { openPageFile, pageSize } from '../../src/environment/page-file.ts'
import { openMapParts } from '../map-parts.ts'

const digest = (text: string) => digestOf(Buffer.from(text))

function manifestOf(texts: string[]) {
  const chunks = texts.map((text) => ({ digest: digest(text), size: text.length }))
  return { contentType: 'a/b', size: texts.join('').length, digest: digest(texts.join('')), chunks }
}

t.test('a file that lacks free pages at its end is whole, and one that lacks others is truncated', async (t) => {
  for (let round = 0; round < 12; round++) {
    const directory = t.testdir()
    const path = join(directory, 'events', 'data.mdb')
    const { maps, environment, close } = await openMapParts(directory)
    const id = { placeId: '1', buildId: 'b' }
    const record = (...texts: string[]) =>
      environment.write(() => {
        maps.put(1, id, maps.find(1, id), { pending: { manifest: manifestOf(texts), touchedAt: 1 } })
      })
    record(...Array.from({ length: 1_100 + round * 37 }, (_, i) => `${round} ${i}`))
    record('new')
    // some of these transactions take pages at the end of the file and give them back, which LMDB does not write
    while (environment.write(() => maps.releaseChunks()) && !isShort(path));
    const found = isShort(path)
    await close()
    if (!found) continue
    t.equal(checkDataFile(path), true)
    const parts = await openMapParts(directory)
    t.match(parts.maps.find(1, id).contents.pending?.manifest, manifestOf(['new']))
    await parts.close()
    truncateSync(path, 10 * pageSize)
    t.throws(() => checkDataFile(path), { code: 'store-incompatible', message: /truncated/ })
    return
  }
  t.fail('no file was short')
})

function isShort(path: string): boolean {
  const file = openPageFile(path)
  const [meta] = file.metas()
  file.close()
  return meta !== undefined && statSync(path).size < (meta.lastPage + 1) * pageSize
}
