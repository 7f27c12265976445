import { createInterface } from 'node:readline'
import { createClient } from '../src/client.ts'
import { sleep } from '../src/http/retry.ts'
import { createSenderWith } from '../src/sender/sender.ts'
import { spoolBytesMin } from '../src/sender/spool.ts'

// The program of the Node sender for `ingest conformance`.

const { env } = process
const number = (name: string) => Number(env[name])
const scale = number('INGEST_TIME_SCALE')
const tryTimeoutMs = number('INGEST_TIMEOUT_MS')

const client = createClient({
  url: env.INGEST_URL,
  projectId: env.INGEST_PROJECT_ID,
  key: env.INGEST_KEY,
  tryTimeoutMs,
})
const sender = createSenderWith(
  client,
  {
    // the clock of the sender is scaled as a whole
    flushMs: Math.ceil(number('INGEST_FLUSH_MS') / scale),
    queueEventsMax: number('INGEST_QUEUE_EVENTS'),
    queueBytesMax: number('INGEST_QUEUE_BYTES'),
    spool: env.INGEST_SPOOL || undefined,
    spoolBytesMax: Math.max(spoolBytesMin, number('INGEST_QUEUE_BYTES')),
    onRetry: (error) => console.error(error),
  },
  { now: () => performance.now() / scale, sleep: (ms, signal) => sleep(ms * scale, signal) },
)

if (env.INGEST_CHDIR) process.chdir(env.INGEST_CHDIR)
let taken = 0
for await (const line of createInterface(process.stdin)) {
  if (line === '') await sender.flush()
  else {
    sender.send(JSON.parse(line))
    console.log(`taken ${++taken}`)
  }
}
const stats = await sender.close({ deadlineMs: number('INGEST_CLOSE_MS') / scale })
await client.close()
const { accepted, duplicates, queuedEvents: unsent } = stats
const { rejected, ...dropped } = stats.dropped
console.log(JSON.stringify({ accepted, duplicates, rejected, dropped, unsent }))
