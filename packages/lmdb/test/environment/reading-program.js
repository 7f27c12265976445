// Opens an environment and keeps a snapshot of it until it is killed. Plain JavaScript, like counting-program.js.
// @ts-check
import { openEnvironment } from '@ingest/lmdb/internal'

const { root } = await openEnvironment(process.argv[2] ?? '')
root.useReadTransaction()
process.stdout.write('reading')
setInterval(() => {}, 1000)
