// Opens a store, submits an event when a line is read, and closes the store once the event is refused. Only the store
// keeps this process alive. Plain JavaScript on the built package.
// @ts-check
import { once } from 'node:events'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'

const ingest = createIngest({ store: await openLmdbStore(process.argv[2] ?? '', { commitTimeoutMs: 3000 }) })
process.stdout.write('open\n')
await once(process.stdin, 'data')
process.stdin.destroy()
const submitted = ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'refused' }] })
const code = await submitted.then(
  () => 'accepted',
  (error) => error.code,
)
const closed = ingest.close()
process.stdout.write(`${code}\n`)
await closed
process.stdout.write('closed\n')
