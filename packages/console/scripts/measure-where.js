import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { createConsole } from '../dist/index.js'
import { openMeasuredPage, projectId, readMeasured, readMemory, readWorkerMemory } from './measured-page.js'

// Prints how the heat map samples a history of three days, with the default rate limits:
//
//   node packages/console/scripts/measure-where.js [--events 4000000] [--rounds 3]

const { values } = parseArgs({
  options: { events: { type: 'string', default: '4000000' }, rounds: { type: 'string', default: '3' } },
})
const total = Number(values.events)
const builds = ['2026.11.19', '2026.11.20']
const days = 3 * 86_400_000
const start = Date.now() - days
const perBatch = 1_000
const types = ['player.move', 'player.move', 'shot.fired', 'player.death']

const data = await mkdtemp(join(tmpdir(), 'console-measure-'))
let now = start
const ingest = createIngest({ store: await openLmdbStore(data), now: () => now })
await fill()
now = start + days
const server = await serve({ ingest, port: 0, console: createConsole(), rateLimits: {} })
const { key } = await ingest.keys.create(projectId, { scopes: ['read'] })
const range = `from=${new Date(start).toISOString()}&to=${new Date(now).toISOString()}`
const view = `where?${range}&build=${builds[1]}&versus=${builds[0]}`
const startedAt = performance.now()
const { browser, page, counted } = await openMeasuredPage({ url: server.url, key, view })
try {
  await page.waitForSelector('.densest', { timeout: 120_000 })
  const pictureMs = Math.round(performance.now() - startedAt)
  for (let round = 0; round <= Number(values.rounds); round++) {
    const roundAt = performance.now()
    if (round > 0) {
      for (const button of await page.$$('.reading button')) await button.click()
      await page.waitForFunction(() => /Reading|Waiting/.test(document.querySelector('main')?.textContent ?? ''))
    }
    await page.waitForFunction(() => !/Reading|Waiting/.test(document.querySelector('main')?.textContent ?? ''), {
      timeout: 300_000,
      polling: 100,
    })
    const samples = await page.$$eval('.reading', (lines) => lines.map(({ textContent }) => textContent))
    console.log({
      ...(round === 0 && { pictureMs }),
      roundMs: Math.round(performance.now() - roundAt),
      requests: counted.requests,
      samples,
      measured: await readMeasured(page),
      page: await readMemory(page),
      worker: await readWorkerMemory(page),
    })
  }
} finally {
  await browser.close()
  await server.close()
  await ingest.close()
  await rm(data, { recursive: true })
}

/** Each event is of one of two builds; a death of the newer one is elsewhere. */
async function fill() {
  const project = ingest.project(projectId)
  for (let i = 0; i < total; ) {
    const batches = []
    for (let batch = 0; batch < perBatch / 100 && i < total; batch++) {
      batches.push({ events: Array.from({ length: Math.min(100, total - i) }, () => newEvent(i++)) })
    }
    now = start + Math.floor((i / total) * days)
    await Promise.all(batches.map((batch) => project.submitBatch(batch)))
  }
}

/**
 * About 250 bytes.
 *
 * @param {number} i
 */
function newEvent(i) {
  const build = i % 2
  const type = types[(i >> 1) % types.length] ?? null
  const offset = type === 'player.death' && build === 1 ? 900 : 0
  return {
    projectId,
    eventId: `018f3c2a-7b1e-7c3d-9a44-${String(i).padStart(12, '0')}`,
    type,
    buildId: builds[build] ?? null,
    timestamp: now,
    sessionId: `s-${i % 5000}`,
    playerId: 1_000_000 + (i % 20_000),
    position: { x: offset + ((i * 37) % 997), y: (i % 3) * 20, z: (i * 91) % 1009 },
    weapon: 'rifle',
  }
}
