// A process with one sender and a spool, which the tests kill. It is plain JavaScript on the built package, because it is
// started many times, and a loader for TypeScript takes a second.
// @ts-check
import { openSync, writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { createClient, createSender } from '@ingest/client'

const [url = '', projectId = '', spool = '', ledgerPath = '', count = ''] = process.argv.slice(2)
const client = createClient({ url, projectId, key: 'ik_any', tryTimeoutMs: 2000 })
const sender = createSender(client, { spool, flushMs: 1, queueEventsMax: 1_000_000 })
process.on('unhandledRejection', (error) => console.error(`unhandled: ${error}`))
console.log('open')

// record an id as soon as `send` has returned it
const ledger = openSync(ledgerPath, 'a')
for (let n = 0; n < Number(count); n++) {
  writeSync(ledger, `${sender.send({ n, filling: 'x'.repeat(n % 500) })}\n`)
  if (n % 20 === 0) await setTimeout(1)
}
const { queuedEvents, dropped } = await sender.close({ deadlineMs: 60_000 })
await client.close()
console.log(JSON.stringify({ queuedEvents, dropped }))
