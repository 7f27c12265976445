import { digestOf, type Manifest } from '@ingest/core'
import t from 'tap'
import { createManifestCache } from '../../src/tables/manifest-cache.ts'

t.test('manifests that are read again are decoded once, as long as they fit', async (t) => {
  const decoded: number[] = []
  const cache = createManifestCache(10)
  const read = (number: number, count: number) =>
    cache.get(number, (): Manifest => {
      decoded.push(number)
      const chunks = Array.from({ length: count }, () => ({ digest: digestOf(), size: 1 }))
      return { contentType: 'a/b', size: count, digest: digestOf(), chunks }
    })
  for (const number of [1, 2, 1, 2]) t.equal(read(number, 4).manifest.chunks.length, 4)
  t.strictSame(decoded, [1, 2])
  read(1, 4)
  read(3, 4)
  t.strictSame(decoded, [1, 2, 3])
  read(1, 4)
  t.strictSame(decoded, [1, 2, 3], 'the least recently used one was dropped')
  read(2, 4)
  t.strictSame(decoded, [1, 2, 3, 2])
  read(4, 100)
  read(4, 100)
  t.strictSame(decoded, [1, 2, 3, 2, 4], 'one that is too large is kept alone')
})
