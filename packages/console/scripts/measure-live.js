import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { createConsole } from '../dist/index.js'
import { openMeasuredPage, projectId, readMeasured, readMemory } from './measured-page.js'

// Prints how a view of the console bears a stream of events:
//
//   node packages/console/scripts/measure-live.js [--seconds 60] [--rate 10000] [--view live]

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '10000' },
    view: { type: 'string', default: 'live' },
  },
})
const batchEvents = 100
const batchMs = (1000 * batchEvents) / Number(values.rate)
const types = ['round.start', 'round.end', 'player.kill', 'player.move', 'item.pick', 'shop.buy']

let count = 0

const data = await mkdtemp(join(tmpdir(), 'console-measure-'))
const ingest = createIngest({ store: await openLmdbStore(data) })
const server = await serve({ ingest, port: 0, console: createConsole() })
const readKey = await ingest.keys.create(projectId, { scopes: ['read'] })
const writeKey = await ingest.keys.create(projectId, { scopes: ['events:write'] })
const { browser, page, counted } = await openMeasuredPage({ url: server.url, key: readKey.key, view: values.view })
try {
  await sleep(2000)
  const before = await readMemory(page)
  const requestsBefore = counted.requests
  const opening = await readMeasured(page)
  const startedAt = performance.now()
  const stored = await sendEvents(Number(values.seconds) * 1000)
  const seconds = (performance.now() - startedAt) / 1000
  const during = await readMeasured(page)
  const text = await page.$eval('main', (main) => main.textContent ?? '')
  console.log({
    eventsPerSecond: Math.round(stored / seconds),
    seconds: Math.round(seconds),
    opening,
    during,
    requestsPerSecond: Math.round(((counted.requests - requestsBefore) / seconds) * 10) / 10,
    before,
    after: await readMemory(page),
    says: text.slice(0, 300),
  })
} finally {
  await browser.close()
  await server.close()
  await ingest.close()
  await rm(data, { recursive: true })
}

/**
 * Sends a batch each `batchMs`, several at a time, and drops none: a server that is too slow lowers the rate.
 *
 * @param {number} ms
 */
async function sendEvents(ms) {
  const start = performance.now()
  let sent = 0
  const sendUntilEnd = async () => {
    for (;;) {
      const due = start + sent++ * batchMs
      if (due > start + ms || performance.now() > start + ms) return
      await sleep(Math.max(0, due - performance.now()))
      await sendBatch()
    }
  }
  await Promise.all(Array.from({ length: 32 }, sendUntilEnd))
  return (await ingest.project(projectId).getStats()).events
}

async function sendBatch() {
  const events = Array.from({ length: batchEvents }, () => newEvent(count++))
  const response = await fetch(`${server.url}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': writeKey.key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ events }),
  })
  if (response.status !== 202) throw new Error(await response.text())
  await response.arrayBuffer()
}

/**
 * About 250 bytes.
 *
 * @param {number} i
 */
function newEvent(i) {
  return {
    projectId,
    eventId: `018f3c2a-7b1e-7c3d-9a44-${String(i).padStart(12, '0')}`,
    type: types[i % types.length],
    buildId: '2026.11.20',
    timestamp: Date.now(),
    sessionId: `s-${i % 5000}`,
    playerId: 1_000_000 + (i % 20_000),
    position: { x: (i * 37) % 4096, y: 12, z: (i * 91) % 4096 },
    weapon: 'rifle',
    health: i % 100,
  }
}
