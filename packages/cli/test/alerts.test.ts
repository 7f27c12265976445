import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { type AlertCase, alertCases } from './alert-cases.ts'
import { dashboardQueries } from './dashboard-queries.ts'
import { startServe } from './ingest-process.ts'
import { projectId } from './served.ts'

const root = join(import.meta.dirname, '../../../..')
const rulesPath = join(root, 'docs/alerts.yml')
const run = promisify(execFile)

function whyNot(command: string): string | false {
  return spawnSync(command, ['--version']).error ? `${command} is not installed: apt-get install prometheus` : false
}

interface Alert {
  name: string
  severity: string
  runbookUrl: string
}

/** The alerts of the file, each of which has all of these lines. */
const alerts: Alert[] = readFileSync(rulesPath, 'utf8')
  .split('- alert: ')
  .slice(1)
  .map((text) => {
    const [, name = '', severity = '', runbookUrl = ''] =
      /^(\w+)\n.* severity: (\w+) \}\n +annotations:\n +summary: ".+"\n +runbook_url: (\S+)\n/s.exec(text) ?? []
    return { name, severity, runbookUrl }
  })

t.test('every alert pages or is a ticket, and links to a section of the documentation', async (t) => {
  const { homepage } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8'))
  const docs = `${homepage.slice(0, homepage.indexOf('/tree/'))}/blob/main/docs/`
  t.ok(alerts.length > 15)
  for (const { name, severity, runbookUrl } of alerts) {
    t.match(severity, /^(page|ticket)$/, name)
    t.ok(runbookUrl.startsWith(docs), `${name}: ${runbookUrl}`)
    const [page = '', heading = ''] = runbookUrl.slice(docs.length).split('#')
    const headings = Array.from(
      readFileSync(join(root, 'docs', page), 'utf8').matchAll(/^#+ (.+)$/gm),
      ([, text = '']) => text.toLowerCase().replaceAll(' ', '-'),
    )
    t.ok(headings.includes(heading), `${name}: ${runbookUrl}`)
  }
})

t.test('every alert has cases in which it fires and does not fire', async (t) => {
  t.strictSame(
    alerts.map(({ name }) => name),
    Object.keys(alertCases),
  )
  for (const [name, cases] of Object.entries(alertCases)) {
    t.ok(cases.some(({ fires }) => fires) && cases.some(({ fires }) => !fires), name)
  }
})

t.test('promtool: each alert fires when it should', { skip: whyNot('promtool') }, async (t) => {
  t.match(await run('promtool', ['check', 'rules', rulesPath]), { stdout: /SUCCESS: \d+ rules found/ })
  const tests = alerts.flatMap((alert) => (alertCases[alert.name] ?? []).map((each) => promtoolTest(alert, each)))
  // evaluating every minute of hours takes long
  const long = tests.filter(({ alert_rule_test: [{ eval_time }] }) => /d|[6-9]h/.test(eval_time))
  const short = tests.filter((each) => !long.includes(each))
  const settings = { rule_files: [rulesPath], group_eval_order: ['ingest-objective', 'ingest'] }
  const directory = t.testdir({
    // JSON is YAML
    'short.yml': JSON.stringify({ ...settings, evaluation_interval: '1m', tests: short }),
    'long.yml': JSON.stringify({ ...settings, evaluation_interval: '15m', tests: long }),
  })
  const files = ['short.yml', 'long.yml'].map((name) => join(directory, name))
  const { stdout, stderr } = await run('promtool', ['test', 'rules', ...files]).catch((error) => error)
  t.equal(stderr, '')
  t.equal(stdout.match(/SUCCESS/g)?.length, files.length)
})

function promtoolTest({ name, severity, runbookUrl }: Alert, { fact, series, at, fires }: AlertCase) {
  const expected = fires && {
    exp_labels: { severity, ...fires.labels },
    exp_annotations: { summary: fires.summary, runbook_url: runbookUrl },
  }
  return {
    name: `${name}: ${fact}`,
    interval: '1m',
    input_series: Object.entries(series).map(([key, values]) => ({ series: key, values })),
    alert_rule_test: [{ eval_time: at, alertname: name, exp_alerts: expected ? [expected] : [] }] as const,
  }
}

t.test(
  'a real Prometheus: rejected events and a refused key raise their alerts, and the dashboard has data',
  { skip: whyNot('prometheus') },
  async (t) => {
    const directory = t.testdir()
    const data = join(directory, 'data')
    const key = await createKey(data)
    const server = await startServe(t, ['--store', data, '--admin', '127.0.0.1:0', '--json'])
    const { admin, url } = JSON.parse(server.line)
    async function sendBatch(events: object[], credential = key): Promise<number> {
      const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': credential, 'Content-Type': 'application/json' }
      const response = await fetch(`${url}/v1/events/batch`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ events }),
      })
      await response.text()
      return response.status
    }
    const event = (eventId: string) => ({ projectId, eventId })
    t.equal(await sendBatch([{ ...event('first'), buildId: 'b-1' }]), 202)
    const ofReader = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }
    t.equal((await fetch(`${url}/v1/stats`, { headers: ofReader })).status, 200)

    const { query, states } = await startPrometheus(t, directory, new URL(admin).host)
    const accepted = `ingest_events_total{project="${projectId}",outcome="accepted"}`
    // a first sample before the faults, from which a rate is computed
    while ((await query(accepted)).length === 0) await sleep(50)
    t.notOk([...(await states()).values()].includes('firing'))

    t.equal(await sendBatch(Array.from({ length: 50 }, (_, i) => ({ ...event(`bad-${i}`), buildId: 5 }))), 202)
    for (let i = 0; i < 12; i++) t.equal(await sendBatch([event('last')], 'wrong'), 401)
    const expected = { IngestEventsRejected: 'pending', IngestKeyRefused: 'firing' }
    let active = await states()
    while (Object.entries(expected).some(([name, state]) => active.get(name) !== state)) {
      await sleep(50)
      active = await states()
    }
    // these depend on the machine: one that is busy does not respond to each scrape in time
    for (const name of ['IngestDiskLow', 'IngestDiskFilling', 'IngestDown']) active.delete(name)
    t.strictSame(Object.fromEntries(active), expected)
    while ((await query('job:ingest_batch_failures:ratio_rate5m{job="ingest"}')).length === 0) await sleep(50)

    // no consumer, no rate limit, no database
    const withoutData =
      /ingest_(?:consumer_lag_seconds|rate_limited_requests_total|store_(?:connections|oldest_snapshot_seconds))\b/
    for (const expression of dashboardQueries()) {
      const values = expression.replaceAll('$job', 'ingest').replaceAll(/\$(?:instance|project)/g, '.+')
      const value = values.replaceAll('$__rate_interval', '5m')
      if (withoutData.test(value)) t.strictSame(await query(value), [], value)
      else while ((await query(value)).length === 0) await sleep(50)
    }
  },
)

async function createKey(data: string): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(data) })
  const { key } = await ingest.keys.create(projectId)
  await ingest.close()
  return key
}

/** Starts a Prometheus that scrapes a target and evaluates the rules, until the end of the test. */
async function startPrometheus(t: Test, directory: string, target: string) {
  const config = join(directory, 'prometheus.yml')
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '200ms', scrape_timeout: '200ms', evaluation_interval: '200ms' },
      scrape_configs: [{ job_name: 'ingest', static_configs: [{ targets: [target] }] }],
      rule_files: [rulesPath],
    }),
  )
  const args = [`--config.file=${config}`, `--storage.tsdb.path=${directory}/tsdb`, '--web.listen-address=127.0.0.1:0']
  const child = spawn('prometheus', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const lines: string[] = []
  let address: string | undefined
  for await (const line of createInterface(child.stderr)) {
    lines.push(line)
    address ??= /"Listening on" address=(\S+)/.exec(line)?.[1]
    if (line.includes('Server is ready')) break
  }
  if (address === undefined) throw new Error(`prometheus ended: ${lines.join('\n')}`)

  async function get(path: string) {
    const { data, error } = (await (await fetch(`http://${address}/api/v1/${path}`)).json()) as Record<string, unknown>
    if (error !== undefined) throw new Error(`${path}: ${error}`)
    return data
  }
  return {
    async query(expression: string): Promise<object[]> {
      const { result } = (await get(`query?query=${encodeURIComponent(expression)}`)) as { result: object[] }
      return result
    },
    /** The alerts that are pending or firing. */
    async states(): Promise<Map<string, string>> {
      const { groups } = (await get('rules')) as { groups: { rules: PrometheusRule[] }[] }
      const rules = groups.flatMap((group) => group.rules)
      for (const { name, lastError } of rules) t.equal(lastError, undefined, name)
      return new Map(rules.flatMap(({ name, state }) => (state && state !== 'inactive' ? [[name, state]] : [])))
    },
  }
}

interface PrometheusRule {
  name: string
  /** The state of an alert. */
  state?: 'inactive' | 'pending' | 'firing'
  lastError?: string
}
