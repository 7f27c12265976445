import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openLedger } from '../src/checks/ledger.js'
import { createExportCheck } from '../src/checks/read-export.js'
import { contentOf } from '../src/load/batch-content.js'
import { readMap } from '../src/load/maps.js'
import { sendBatch } from '../src/load/send-batch.js'
import { createRandom, createRun } from '../src/site/run.js'
import type { Site } from '../src/site/site.js'

const program = fileURLToPath(new URL('../src/soak.js', import.meta.url))

/** Servers and commands run in process groups. */
const skip = process.platform === 'win32' && 'needs process groups'

/** Runs the soak without the NODE_OPTIONS that tap gives to every child process. */
function soak(...args: string[]) {
  return promisify(execFile)('env', ['-u', 'NODE_OPTIONS', process.execPath, program, ...args])
}

t.test('a short run finds nothing, and leaves its report', { skip }, async (t) => {
  const directory = t.testdir()
  const { stdout, stderr } = await soak('--hours', '0.002', '--seed', '7', '--store', directory).catch((error) => error)
  t.match(stderr, /^seed 7, files in /)
  const report = JSON.parse(readFileSync(join(directory, 'report.json'), 'utf8'))
  t.strictSame(report.violations, [])
  t.match(stdout, /^# Soak: no violation in \d+ s\n/)
  t.strictSame(readdirSync(directory).sort(), ['report.json', 'report.md'])
  t.match(report, {
    ok: true,
    configuration: { seed: 7, hours: 0.002 },
    events: { lost: 0, hung: 0 },
  })
  t.ok(report.events.acknowledged > 0)
  t.ok(report.counts.openings.serve >= 4, 'both servers were started again for the comparison')
})

t.test('an interrupted run ends its servers', { skip }, async (t) => {
  const directory = join(t.testdir(), 'run')
  const child = execFile('env', ['-u', 'NODE_OPTIONS', process.execPath, program, '--store', directory])
  const ended = once(child, 'exit')
  const ledger = join(directory, 'ledger.ndjson')
  /** The process ids of the servers, from the ledger. */
  const pids = () =>
    [...readFileSync(ledger, 'utf8').matchAll(/"[ab]:(\d+)","event":"listens"/g)].map((m) => Number(m[1]))
  while (!existsSync(ledger) || pids().length < 2) await new Promise(setImmediate)
  const started = pids()
  child.kill('SIGINT')
  t.strictSame(await ended, [130, null])
  for (const pid of started) await untilGone(pid)
  t.pass('no server is left')
})

t.test('wrong options are refused', async (t) => {
  const args = [['--hours', '0'], ['--seed', 'x'], ['--nothing'], ['--store', t.testdir({ file: '' })]]
  for (const each of args) await t.rejects(soak(...each), { code: 2, stderr: /no soak: / })
  t.match((await soak('--help')).stdout, /pnpm soak/)
})

t.test('a server that forgets is found when a batch is sent again', async (t) => {
  const { site, server, batch } = await siteWith(t, accepting)
  const options = { server, random: createRandom(1), purpose: 'test' }
  await sendBatch(site, batch, options)
  t.strictSame(site.run.violations, [])
  await sendBatch(site, batch, options)
  t.match(site.run.violations, [{ check: /acknowledged events are stored/, batch: 0, lost: batch.valid }])
  t.ok(site.run.stopping.aborted)
})

t.test('wrong counts, refusals and broken connections are found', async (t) => {
  const cases: [RequestListener, RegExp][] = [
    [(_, response) => void response.writeHead(202).end('{"accepted":0,"duplicates":0,"rejected":[]}'), /= sent/],
    [(_, response) => void response.writeHead(503).end('{"code":"store-failed"}'), /refused only for a reason/],
    [(_, response) => void response.writeHead(500).end(), /no response says that something is broken/],
    [(_, response) => void response.destroy(), /connections of a running server do not break/],
  ]
  for (const [respond, check] of cases) {
    const { site, server, batch } = await siteWith(t, respond)
    await sendBatch(site, batch, { server, random: createRandom(1), purpose: 'test' })
    t.match(site.run.violations[0]?.check, check)
  }
})

t.test('only the download of an open map may break, as the map may be replaced', async (t) => {
  const cut: RequestListener = (_, response) => {
    response.writeHead(200, { 'Content-Length': 2 }).write('a', () => response.destroy())
  }
  for (const isFrozen of [false, true]) {
    const { site, server } = await siteWith(t, cut)
    const map = { buildId: 'b', possible: new Set<string>(), isPublished: true, isFrozen, fixed: undefined }
    t.equal(await readMap(site, map, { server, random: createRandom(1) }), false)
    const checks = site.run.violations.map(({ check }) => check)
    t.strictSame(checks, isFrozen ? ['connections of a running server do not break'] : [])
  }
})

t.test('an export is compared with what was sent', async (t) => {
  const { site, server, batch } = await siteWith(t, accepting)
  await sendBatch(site, batch, { server, random: createRandom(1), purpose: 'test' })
  const [event] = contentOf(site.run.seed, batch, 0).events
  const line = `{"cursor":"c","receivedAt":5,"event":${event?.text}}`
  const checkOf = (...lines: string[]) => {
    site.run.violations.length = 0
    const exported = createExportCheck(site, { projectId: 'p', source: 'test', startedAt: Date.now() })
    for (const each of lines) exported.add(each)
    return site.run.violations.map(({ check }) => check)
  }
  t.strictSame(checkOf(line), [])
  t.strictSame(checkOf(line, line), ['each event is stored once'])
  t.strictSame(checkOf(line.replace('"variant":0', '"variant":9')), [
    'an event has the content of the first one accepted',
  ])
  t.strictSame(checkOf(line.replace('e-0-0-', 'e-1-0-')), ['stored ⊆ sent'])
  t.strictSame(checkOf(line.replace(/e-0-0-\w+/, 'void-1')), ['stored ⊆ sent'])
  site.ledger.players.set(batch.player, { number: batch.player, inFlight: 0, isRetired: true, erasedAt: 0 })
  t.strictSame(checkOf(line), ['what is erased is not read'])
})

/** Accepts every event of every batch, each time. */
const accepting: RequestListener = (request, response) => {
  const parts: Buffer[] = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => {
    const { events } = JSON.parse(Buffer.concat(parts).toString())
    response.writeHead(202).end(JSON.stringify({ accepted: events.length, duplicates: 0, rejected: [] }))
  })
}

/** A site for one sender, a server that responds with `respond`, and a batch for it. */
async function siteWith(t: Test, respond: RequestListener) {
  const directory = t.testdir()
  const run = createRun({ seed: 1, directory, print: () => {} })
  const ledger = openLedger({ seed: 1, path: join(directory, `ledger-${Math.random()}.ndjson`) })
  const listener = createServer(respond).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  const { port } = listener.address() as AddressInfo
  const server = { id: 'test:1', port, isEnding: false }
  const projects = { erased: 'e', plain: 'p', aged: 'a' }
  const retention = { olderThanMs: 1000, isErasedBefore: -Infinity }
  const site = {
    run,
    ledger,
    projects,
    retention,
    keys: new Map([['p', ['key']]]),
    store: directory,
  } as unknown as Site
  const batch = ledger.addBatch({ projectId: 'p', player: 1, buildId: 'b', isPlain: true })
  return { site, server, batch }
}

/** A process whose parent has ended may stay as a zombie, because nothing here has to reap it. */
async function untilGone(pid: number) {
  for (;;) {
    try {
      process.kill(pid, 0)
      if (/\nState:\tZ/.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) return
    } catch {
      return
    }
    await new Promise(setImmediate)
  }
}
