import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { dashboardQueries, variableQueries } from './dashboard-queries.ts'
import { type ScrapedMetric, scrapeBusyServer } from './scraped-metrics.ts'

const docs = join(import.meta.dirname, '../../../../docs')
const textOf = (name: string) => readFileSync(join(docs, name), 'utf8')

/** Metrics of Node.js and of the process, which prom-client adds. */
const isOfNode = ({ name }: ScrapedMetric) => /^(?:nodejs|process)_/.test(name)

/** Metrics of a database, which the tests of the PostgreSQL store check. */
const ofDatabase = /^### Of a database$.*?(?=^###? )/ms

function typeOf(name: string): string {
  if (name.endsWith('_total')) return 'counter'
  return name.endsWith('_duration_seconds') || name === 'ingest_commit_requests' ? 'histogram' : 'gauge'
}

t.test('docs/metrics.md lists every metric of a directory, with its labels', async (t) => {
  const scraped = (await scrapeBusyServer(t)).filter((metric) => !isOfNode(metric))
  const expected = scraped.map(({ name, labels, help }) => {
    const names = [...labels.keys()].filter((label) => label !== 'le').sort()
    return `${name}${names.length > 0 ? `{${names}}` : ''} | ${help}`
  })
  const listed = Array.from(
    textOf('metrics.md')
      .replace(ofDatabase, '')
      .matchAll(/^\| `(ingest_\S+)` +\| (.*?) +\|$/gm),
    ([, metric, help]) => `${metric} | ${help}`,
  )
  t.not(listed.length, 0)
  t.strictSame(listed.sort(), expected.sort())
  for (const { name, type } of scraped) t.equal(type, typeOf(name), `${name} has the type that its name says`)
})

/** The unknown metrics, labels and label values in a query. Values are known only for labels that list some. */
function unknownIn(query: string, scraped: readonly ScrapedMetric[]): string[] {
  const metricOf = (sample: string) =>
    scraped.find(({ name, type }) => {
      return name === sample || (type === 'histogram' && new RegExp(`^${name}_(?:bucket|sum|count)$`).test(sample))
    })
  const unknown: string[] = []
  const labels = new Set(ofPrometheus)
  for (const [, sample = '', matchers = ''] of query.matchAll(sampleInQuery)) {
    const metric = metricOf(sample)
    if (!metric) unknown.push(sample)
    for (const label of metric?.labels.keys() ?? []) labels.add(label)
    for (const [, label = '', operator = '', value = ''] of matchers.matchAll(/(\w+)(=~|!=|=)"([^"]*)"/g)) {
      if (ofPrometheus.includes(label)) continue
      const values = metric?.labels.get(label)
      const isKnown = values && (values.size === 0 || operator === '=~' || values.has(value))
      if (!isKnown) unknown.push(`${sample}{${label}="${value}"}`)
    }
  }
  for (const [, list = ''] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    unknown.push(...list.split(', ').filter((label) => !labels.has(label)))
  }
  return unknown
}

/** The name of a metric or of a recording rule, and its matchers. */
const sampleInQuery = /(?<![\w:"/])((?:\w+:)?(?:ingest|nodejs|process)_[\w:]+)(?:\{([^}]*)\})?/g

/** Labels that Prometheus adds. */
const ofPrometheus = ['instance', 'job']

/** The recording rules as metrics, with the labels that they aggregate by, and their expressions. */
function recordingRules(): { metric: ScrapedMetric; expr: string }[] {
  return Array.from(textOf('alerts.yml').matchAll(/- record: (\S+)\n +expr: (.+)$/gm), ([, name = '', expr = '']) => {
    const labels = Array.from(expr.matchAll(/\bby \(([^)]*)\)/g)).flatMap(([, list = '']) => list.split(', '))
    return { metric: { name, type: 'gauge', help: '', labels: new Map(labels.map((each) => [each, new Set()])) }, expr }
  })
}

/** The metrics of a database, as docs/metrics.md lists them. */
function databaseMetrics(): ScrapedMetric[] {
  const [section = ''] = ofDatabase.exec(textOf('metrics.md')) ?? []
  return Array.from(section.matchAll(/^\| `(\w+)(?:\{(.*)\})?` /gm), ([, name = '', labels = '']) => {
    return { name, type: typeOf(name), help: '', labels: new Map(labels.split(',').map((each) => [each, new Set()])) }
  })
}

t.test('the dashboard and the rules use metrics and labels that exist', async (t) => {
  const rules = recordingRules()
  const known = [...(await scrapeBusyServer(t)), ...databaseMetrics(), ...rules.map(({ metric }) => metric)]
  t.strictSame(unknownIn('sum by (le, nope) (rate(ingest_nope_total{a="b"}[5m]))', known), [
    'ingest_nope_total',
    'ingest_nope_total{a="b"}',
    'le',
    'nope',
  ])
  t.strictSame(unknownIn('ingest_events_total{outcome="nope"}', known), ['ingest_events_total{outcome="nope"}'])
  t.strictSame(unknownIn('job:ingest_nope:rate5m > 1', known), ['job:ingest_nope:rate5m'])

  const alerts = Array.from(textOf('alerts.yml').matchAll(/- alert: .*\n +expr: (.+)$/gm), ([, expr = '']) => expr)
  const queries = [...dashboardQueries(), ...variableQueries()]
  t.ok(queries.length > 40 && alerts.length > 15 && rules.length > 7)
  t.strictSame(
    [...queries, ...alerts, ...rules.map(({ expr }) => expr)].flatMap((query) => unknownIn(query, known)),
    [],
  )
})
