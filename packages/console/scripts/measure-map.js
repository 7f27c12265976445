import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '@ingest/client'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { createConsole } from '../dist/index.js'
import { openMeasuredPage, projectId, readMeasured, readMemory, readWorkerMemory } from './measured-page.js'

// Prints how the console opens a large JSON map:
//
//   node packages/console/scripts/measure-map.js [--megabytes 30]

const { values } = parseArgs({ options: { megabytes: { type: 'string', default: '30' } } })
const map = { placeId: 'island', buildId: '2026.11.20' }

const data = await mkdtemp(join(tmpdir(), 'console-measure-'))
const ingest = createIngest({ store: await openLmdbStore(data) })
const server = await serve({ ingest, port: 0, console: createConsole() })
const { key } = await ingest.keys.create(projectId, { scopes: ['maps:write', 'read'] })
const client = createClient({ url: server.url, projectId, key })
const { size, chunks } = await client.publishMap({ ...map, source: mapOf(Number(values.megabytes) * 1e6) })
await client.close()
const { browser, page } = await openMeasuredPage({ url: server.url, key, view: `maps/${map.buildId}` })
try {
  await page.waitForSelector('main a[href*="island"]')
  const before = await readMemory(page)
  await readMeasured(page)
  const startedAt = performance.now()
  await page.locator('main a[href*="island"]').click()
  await page.waitForSelector('pre.json', { timeout: 120_000 })
  const previewMs = Math.round(performance.now() - startedAt)
  const opened = await readMeasured(page)
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 2000)))
  console.log({
    size,
    chunks,
    previewMs,
    opened,
    later: await readMeasured(page),
    before,
    after: await readMemory(page),
    worker: await readWorkerMemory(page),
  })
} finally {
  await browser.close()
  await server.close()
  await ingest.close()
  await rm(data, { recursive: true })
}

/**
 * A map of parts with names, positions and sizes.
 *
 * @param {number} bytes
 */
async function* mapOf(bytes) {
  yield Buffer.from('{"name":"island","parts":[')
  let i = 0
  for (let written = 0; written < bytes; ) {
    let text = ''
    for (let n = 0; n < 1000; n++, i++) text += (i ? ',' : '') + JSON.stringify(newPart(i))
    written += text.length
    yield Buffer.from(text)
  }
  yield Buffer.from(']}')
}

/** @param {number} i */
function newPart(i) {
  return {
    id: i,
    name: `Part ${i}`,
    className: 'MeshPart',
    position: { x: (i * 37) % 4096, y: i % 64, z: (i * 91) % 4096 },
    size: { x: 4 + (i % 9), y: 2, z: 4 + (i % 7) },
    material: 'Plastic',
    tags: ['solid', 'static'],
  }
}
