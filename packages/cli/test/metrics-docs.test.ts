import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { createMetrics, toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'

const docs = join(import.meta.dirname, '../../../../docs')
const textOf = (name: string) => readFileSync(join(docs, name), 'utf8')

/** A metric of a scrape, with all labels of its samples. */
interface Scraped {
  name: string
  type: string
  help: string
  /** The values of each label. */
  labels: Map<string, Set<string>>
}

/** The metrics of a server on LMDB that had every kind of traffic. */
async function scrapeBusyServer(t: Test): Promise<Scraped[]> {
  const ingest = createIngest({ store: await openLmdbStore(t.testdir()) })
  t.teardown(() => ingest.close())
  const metrics = createMetrics(ingest)
  // on a slow machine, time would fill the bucket again
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
    await send('/elsewhere'),
  ]
  t.strictSame(statuses, [202, 202, 202, 202, 429, 401, 200, 404])
  return parseScrape(await metrics.render())
}

const silent = { debug() {}, info() {}, warn() {}, error() {}, isLevelEnabled: () => false }

function parseScrape(text: string): Scraped[] {
  const metrics: Scraped[] = []
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

/** Written by prom-client, of Node and of the process. */
const isOfNode = ({ name }: Scraped) => /^(?:nodejs|process)_/.test(name)

t.test('docs/metrics.md lists every metric of a directory, with its type and labels', async (t) => {
  const scraped = (await scrapeBusyServer(t)).filter((metric) => !isOfNode(metric))
  const expected = scraped.map(({ name, type, labels, help }) => {
    const names = [...labels.keys()].filter((label) => label !== 'le').sort()
    return `${name} | ${type} | ${names.join(', ')} | ${help}`
  })
  // the tests of the PostgreSQL store hold the metrics of a database
  const text = textOf('metrics.md').replace(/^### Of a database$.*?(?=^###? )/ms, '')
  const listed = Array.from(text.matchAll(/^\| `(ingest_.*) \|$/gm), ([, row = '']) =>
    row
      .replaceAll('`', '')
      .split('|')
      .map((cell) => cell.trim())
      .join(' | '),
  )
  t.not(listed.length, 0)
  t.strictSame(listed.sort(), expected.sort())
})

/** What a query selects that no scrape has: unknown metrics, labels, and values of labels. */
function unknownIn(query: string, scraped: readonly Scraped[]): string[] {
  const metricOf = (sample: string) =>
    scraped.find(({ name, type }) => {
      return name === sample || (type === 'histogram' && new RegExp(`^${name}_(?:bucket|sum|count)$`).test(sample))
    })
  const unknown: string[] = []
  const labels = new Set(ofPrometheus)
  for (const [, sample = '', matchers = ''] of query.matchAll(/\b((?:ingest|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)) {
    const metric = metricOf(sample)
    if (!metric) unknown.push(sample)
    for (const label of metric?.labels.keys() ?? []) labels.add(label)
    for (const [, label = '', operator, value = ''] of matchers.matchAll(/(\w+)(=~|=)"([^"]*)"/g)) {
      if (ofPrometheus.includes(label)) continue
      const values = metric?.labels.get(label)
      if (!values || (operator === '=' && !values.has(value))) unknown.push(`${sample}{${label}="${value}"}`)
    }
  }
  for (const [, list = ''] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    unknown.push(...list.split(', ').filter((label) => !labels.has(label)))
  }
  return unknown
}

/** Labels that Prometheus adds. */
const ofPrometheus = ['instance', 'job']

t.test('the dashboard and the alert rules use metrics and labels that exist', async (t) => {
  const scraped = await scrapeBusyServer(t)
  t.strictSame(unknownIn('sum by (le, nope) (rate(ingest_nope_total{a="b"}[5m]))', scraped), [
    'ingest_nope_total',
    'ingest_nope_total{a="b"}',
    'le',
    'nope',
  ])
  t.strictSame(unknownIn('ingest_events_total{outcome="nope"}', scraped), ['ingest_events_total{outcome="nope"}'])
  const { panels } = JSON.parse(textOf('grafana/ingest.json')) as { panels: { targets?: { expr: string }[] }[] }
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const rules = Array.from(textOf('alerts.yml').matchAll(/^ +expr: (.+)$/gm), ([, expr = '']) => expr)
  t.ok(queries.length > 20 && rules.length > 8)
  t.strictSame(
    [...queries, ...rules].flatMap((query) => unknownIn(query, scraped)),
    [],
  )
})
