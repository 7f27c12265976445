import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { createMetrics, toFetchHandler } from '@ingest/server'
import type { Test } from 'tap'

/** A metric of a scrape, with all labels of its samples. */
export interface ScrapedMetric {
  name: string
  type: string
  help: string
  /** The values of each label. */
  labels: Map<string, Set<string>>
}

/** The metrics of a server on LMDB that had every kind of traffic. */
export async function scrapeBusyServer(t: Test): Promise<ScrapedMetric[]> {
  const ingest = createIngest({ store: await openLmdbStore(t.testdir()) })
  t.teardown(() => ingest.close())
  const metrics = createMetrics(ingest)
  // a fixed clock: on a slow machine, the bucket would be full again
  const rateLimits = { requests: { perSecond: 1, burst: 4 }, now: () => 0 }
  const handle = toFetchHandler(ingest, { metrics, rateLimits, log: silent })
  const { key } = await ingest.keys.create('game-1')
  const cursor = await ingest.project('game-1').lastCursor()
  await ingest.project('game-1').putConsumer('warehouse', { cursor, replaces: null })
  const send = async (path: string, events?: object[], credential = key) => {
    const headers = { 'X-Project-Id': 'game-1', 'X-Ingestion-Key': credential, 'Content-Type': 'application/json' }
    const request = events ? { method: 'POST', headers, body: JSON.stringify({ events }) } : { headers }
    const response = await handle(new Request(`http://localhost${path}`, request))
    await response.text()
    return response.status
  }
  const event = { projectId: 'game-1', eventId: 'e-1', buildId: 'b-1', timestamp: new Date().toISOString() }
  const statuses = [
    await send('/v1/events/batch', [event]),
    await send('/v1/events/batch', [{ ...event, type: 'other' }]),
    await send('/v1/events/batch', [{ eventId: 'e-2' }]),
    await send('/v1/events/batch', [event, event]),
    await send('/v1/events/batch', [event]),
    await send('/v1/events', undefined, 'wrong'),
    await send('/v1/events'),
    await send('/v1/events?wait=0'),
    await send('/elsewhere'),
  ]
  t.strictSame(statuses, [202, 202, 202, 202, 429, 401, 200, 200, 404])
  return parseScrape(await metrics.render())
}

const silent = { debug() {}, info() {}, warn() {}, error() {}, isLevelEnabled: () => false }

function parseScrape(text: string): ScrapedMetric[] {
  const metrics: ScrapedMetric[] = []
  for (const line of text.split('\n')) {
    const [, name = '', help = ''] = /^# HELP (\S+) (.*)$/.exec(line) ?? []
    if (name !== '') metrics.push({ name, help, type: '', labels: new Map() })
    const metric = metrics.at(-1)
    if (metric === undefined || line === '' || line.startsWith('# HELP')) continue
    if (line.startsWith('# TYPE')) metric.type = line.split(' ').at(-1) ?? ''
    for (const [, label = '', value = ''] of line.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
      metric.labels.set(label, (metric.labels.get(label) ?? new Set()).add(value))
    }
  }
  return metrics
}
