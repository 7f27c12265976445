// Repeatedly opens an environment, adds 1 to a count in it and closes it; prints how often. Plain JavaScript on the built
// package, because strace slows down a loader for TypeScript too much.
// @ts-check
import { openEnvironment } from '@ingest/lmdb/internal'

const [directory = '', times = '0'] = process.argv.slice(2)
const key = Buffer.from('count')
for (let i = 0; i < Number(times); i++) {
  const { table, write, close } = await openEnvironment(directory)
  const rows = table('log')
  write(() => {
    const value = Buffer.alloc(8)
    value.writeDoubleLE((rows.getBinary(key)?.readDoubleLE() ?? 0) + 1)
    rows.put(key, value)
  })
  await close()
}
process.stdout.write(times)
