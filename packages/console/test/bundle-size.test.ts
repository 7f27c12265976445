import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import t from 'tap'

const bytesMax = 100 * 1024
const directory = new URL('../dist/page/', import.meta.url)

t.test('the files of the page are at most 100 KB, compressed', async (t) => {
  const sizes = readdirSync(directory).map(
    (name) => gzipSync(readFileSync(new URL(name, directory)), { level: 9 }).length,
  )
  t.ok(sizes.length >= 4)
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  t.comment(`${bytes} bytes of ${bytesMax}`)
  t.ok(bytes <= bytesMax, `${bytes} bytes`)
})
