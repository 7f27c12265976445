import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { json, text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { root } from '../repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const command = join(root, 'packages/cli/bin/ingest.js')
const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentSpanId = 'b7ad6b7169203331'

/** What a user preloads, as the documentation of OpenTelemetry has it. */
const instrumentation = `
import { NodeSDK } from '@opentelemetry/sdk-node'
new NodeSDK().start()
`

/** The newest SDK of each Node.js, with the version of the API that it needs. */
const sdks = [
  { sdk: '0.223.0', api: '1.9.1', node: async () => process.execPath },
  { sdk: '0.301.0', api: '1.10.0', node: pathOfNode24 },
]

async function pathOfNode24(): Promise<string> {
  const { stdout } = await run('npx', ['--yes', 'node@24', '--print', 'process.execPath'], { shell: true })
  return stdout.trim()
}

interface Span {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
}

/** Receives spans over OTLP/HTTP in JSON; `wait` resolves once a span with that name has come, with all until then. */
async function openReceiver(t: Test) {
  const spans: Span[] = []
  let onSpans = () => {}
  const server = createServer(async (request, response) => {
    const { resourceSpans } = (await json(request)) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
    spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)))
    response.setHeader('Content-Type', 'application/json').end('{}')
    onSpans()
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close().closeAllConnections())
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    wait: (name: string) =>
      new Promise<Span[]>((resolve) => {
        onSpans = () => {
          if (spans.some((span) => span.name === name)) resolve(spans)
        }
        onSpans()
      }),
  }
}

for (const { sdk, api, node } of sdks) {
  t.test(`ingest serve exports spans through @opentelemetry/sdk-node ${sdk} of another directory`, async (t) => {
    const directory = t.testdir({ 'package.json': '{"type":"module"}', 'instrumentation.js': instrumentation })
    const packages = [`@opentelemetry/sdk-node@${sdk}`, `@opentelemetry/api@${api}`]
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...packages], {
      cwd: directory,
      shell: true,
    })
    const receiver = await openReceiver(t)
    const at = ['--store', join(directory, 'data'), '--json']
    const { stdout: created } = await run(process.execPath, [command, 'keys', 'create', '--project', 'p', ...at])
    const preload = ['--import', pathToFileURL(join(directory, 'instrumentation.js')).href]
    const serve = [...preload, command, 'serve', '--listen', '127.0.0.1:0', ...at]
    const server = spawn(await node(), serve, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
        OTEL_METRICS_EXPORTER: 'none',
        OTEL_LOGS_EXPORTER: 'none',
        OTEL_BSP_SCHEDULE_DELAY: '100',
      },
    })
    t.teardown(() => server.kill('SIGKILL'))
    const exit = once(server, 'exit')
    const log = text(server.stderr)
    const [line] = await once(createInterface(server.stdout), 'line')
    const response = await fetch(`${JSON.parse(line).url}/v1/events/batch`, {
      method: 'POST',
      headers: {
        'X-Project-Id': 'p',
        'X-Ingestion-Key': JSON.parse(created).key,
        'Content-Type': 'application/json',
        traceparent: `00-${traceId}-${parentSpanId}-01`,
      },
      body: '{"events":[{"projectId":"p","eventId":"e-1"}]}',
    })
    t.equal(response.status, 202)
    const request = 'POST /v1/events/batch'
    const spans = await receiver.wait(request)
    t.strictSame([...new Set(spans.map((span) => span.traceId))], [traceId])
    const parentOf = (name: string) => spans.find((span) => span.name === name)?.parentSpanId
    t.equal(parentOf(request), parentSpanId)
    const idOf = (name: string) => spans.find((span) => span.name === name)?.spanId
    t.equal(parentOf('submit batch'), idOf(request))
    for (const step of ['decide', 'append']) t.equal(parentOf(step), idOf('submit batch'), step)
    t.equal(parentOf('commit'), idOf('append'))
    server.kill()
    await exit
    t.match(await log, /"traces":"an OpenTelemetry SDK is registered".*"msg":"listening"/)
  })
}
