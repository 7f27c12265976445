import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createIngest, digestOf } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { openPostgresStore } from '@ingest/postgres'
import { formatTable } from './format.js'
import { parseCount } from './parse-count.js'

const help = `node packages/bench/src/many.js [options]   fills a store with many of everything, and measures what lists or reads it

  --projects <n>      default 10k, of --batches <n> each (default 10)
  --builds <n>        of one project, as are: --places <n>, --pending <n> maps, --chunks <n>, --keys <n>
  --processes <n>     on one directory at once
  --dir <dir>         is kept, and not filled again; --store <url> for an empty database in place of a directory
  --cli <bin.js>      whose commands are measured: --commands stats,erase`

const zero = { type: /** @type {const} */ ('string'), default: '0' }
const { values } = parseOptions({
  options: {
    help: { type: 'boolean' },
    projects: { type: 'string', default: '10k' },
    batches: { type: 'string', default: '10' },
    builds: zero,
    places: zero,
    pending: zero,
    chunks: zero,
    keys: zero,
    processes: zero,
    /** A directory that is kept. */
    dir: { type: 'string' },
    /** The URL of an empty database, in place of a directory. */
    store: { type: 'string' },
    /** Of the CLI that is measured. */
    cli: { type: 'string', default: fileURLToPath(new URL('../../cli/dist/bin.js', import.meta.url)) },
    commands: { type: 'string', default: 'stats,stats --project p0,erase,copy,backup' },
  },
})
if (values.help) {
  console.log(help)
  process.exit()
}
const count = {
  projects: parseCount(values.projects),
  batches: parseCount(values.batches),
  builds: parseCount(values.builds),
  places: parseCount(values.places),
  pending: parseCount(values.pending),
  chunks: parseCount(values.chunks),
  keys: parseCount(values.keys),
  processes: parseCount(values.processes),
}

/** How many operations of a filling are in flight. */
const inFlight = 512
const chunksPerMap = 1000
/** Has all builds, maps and keys. */
const bigProject = 'many'

const parent = values.dir ?? (await mkdtemp(join(tmpdir(), 'ingest-many-')))
const directory = join(parent, 'store')
/** @type {string[][]} */
const rows = []
try {
  const store =
    values.store === undefined
      ? await openLmdbStore(directory)
      : await openPostgresStore(values.store, { migrate: true })
  const ingest = createIngest({ store })
  try {
    if ((await store.projects()).length === 0) await fill(ingest)
    await measureCalls(ingest)
  } finally {
    await ingest.close()
  }
  for (const command of values.commands.split(',').filter(Boolean)) {
    await measureCommand(command, values.store ?? directory)
  }
  if (count.processes > 0) await measureProcesses()
} finally {
  if (values.dir === undefined) await rm(parent, { recursive: true })
}
process.stdout.write(`${formatTable(['what', 'count', 'seconds', 'longest turn, ms', 'memory, MB'], rows)}\n`)

/** @typedef {import('@ingest/core').EmbeddedIngest} EmbeddedIngest */

/** @param {EmbeddedIngest} ingest */
async function fill(ingest) {
  await measure('fill projects', count.projects * count.batches, () =>
    // the batches of a project are not neighbours in the log
    forEach(count.projects * count.batches, (i) => submit(ingest, `p${i % count.projects}`, `${i}`)),
  )
  await measure('fill builds', count.builds, () =>
    forEach(count.builds, (i) => submit(ingest, bigProject, `b${i}`, `build-${i}`)),
  )
  const project = ingest.project(bigProject)
  await measure('publish places', count.places, () =>
    forEach(count.places, (i) => project.publishMap({ placeId: `place-${i}`, buildId: 'maps', map: { i } })),
  )
  await measure('publish pending maps', count.pending, () =>
    forEach(count.pending, (i) => project.publishMap(publicationOf(`pending-${i}`, [Buffer.from(`${i}`)]))),
  )
  await measure('upload chunks', count.chunks, () =>
    forEach(Math.ceil(count.chunks / chunksPerMap), async (i) => {
      const chunks = Array.from({ length: chunksPerMap }, (_, j) => Buffer.from(`chunk ${i} ${j}`))
      await project.publishMap(publicationOf(`chunks-${i}`, chunks))
      await project.putChunks(chunks.map((bytes) => ({ digest: digestOf(bytes), bytes })))
    }),
  )
  await measure('create keys', count.keys, () => forEach(count.keys, () => ingest.keys.create(bigProject)))
}

/** @param {string} placeId @param {Buffer[]} chunks */
function publicationOf(placeId, chunks) {
  const whole = Buffer.concat(chunks)
  const refs = chunks.map((bytes) => ({ digest: digestOf(bytes), size: bytes.length }))
  const manifest = { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks: refs }
  return { placeId, buildId: 'maps', manifest }
}

/** @param {EmbeddedIngest} ingest */
async function measureCalls(ingest) {
  const project = ingest.project(bigProject)
  await measure('list projects', count.projects, () => ingest.listProjects())
  if (count.builds + count.places + count.pending > 0) {
    await measure('getStats', count.builds, () => project.getStats())
    await measure('listBuilds, 1 page', 100, () => project.listBuilds())
    await measure('listBuilds, all pages', count.builds, () => eachPage((page) => project.listBuilds(page)))
    await measure('listMaps, 1 page', 100, () => project.listMaps())
    await measure('listMaps, all pages', count.places + count.pending, () => eachPage((page) => project.listMaps(page)))
    await measure('getMap', 1000, () =>
      forEach(1000, (i) => project.getMap({ placeId: `place-${i % (count.places || 1)}`, buildId: 'maps' })),
    )
    await measure('freeze of the build of all maps', 1, () => submit(ingest, bigProject, 'freezing', 'maps'))
  }
  if (count.keys > 0) {
    const { key } = await ingest.keys.create(bigProject)
    const credentials = { projectId: bigProject, key, scope: /** @type {const} */ ('read') }
    await measure('create 100 keys', 100, () => forEach(100, () => ingest.keys.create(bigProject)))
    await measure('authenticate', 10_000, async () => {
      for (let i = 0; i < 10_000; i++) await ingest.authenticate(credentials)
    })
  }
}

/**
 * Runs a command of the CLI in a process of its own, which reports its longest turn and its memory.
 *
 * @param {string} command @param {string} store
 */
async function measureCommand(command, store) {
  const [verb = '', ...more] = command.split(' ')
  const target = join(parent, `target-${verb}`)
  await rm(target, { recursive: true, force: true })
  /** @type {Record<string, string[]>} */
  const argumentsByVerb = {
    erase: ['--store', store, '--older-than', '1d', '--yes', '--json'],
    copy: ['--from', store, '--to', target, '--json'],
    backup: [target, '--store', store, '--json'],
  }
  const report = `import { monitorEventLoopDelay } from 'node:perf_hooks'
    import { writeSync } from 'node:fs'
    import { isMainThread } from 'node:worker_threads'
    const delay = monitorEventLoopDelay({ resolution: 1 })
    if (isMainThread) {
      delay.enable()
      process.on('exit', () => writeSync(3, JSON.stringify([delay.max / 1e6, process.resourceUsage().maxRSS / 1024])))
    }`
  const preload = `data:text/javascript,${encodeURIComponent(report)}`
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    ['--import', preload, values.cli, verb, ...more, ...(argumentsByVerb[verb] ?? ['--store', store, '--json'])],
    { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] },
  )
  let text = ''
  child.stdout?.resume()
  child.stdio[3]?.on('data', (part) => {
    text += part
  })
  const [code] = await once(child, 'close')
  const [turnMs, memory] = text === '' ? [Number.NaN, Number.NaN] : JSON.parse(text)
  const what = `ingest ${command}${code === 0 ? '' : ` (exit code ${code})`}`
  addRow(what, count.projects, performance.now() - startedAt, turnMs, memory)
  await rm(target, { recursive: true, force: true })
}

/** Processes that have the directory open at once, each with one batch. */
async function measureProcesses() {
  const program = `import { createIngest, digestOf } from ${JSON.stringify(import.meta.resolve('@ingest/core'))}
    import { openLmdbStore } from ${JSON.stringify(import.meta.resolve('@ingest/lmdb'))}
    const ended = new Promise((resolve) => process.stdin.resume().on('end', resolve))
    try {
      const store = await openLmdbStore(process.argv[1], { onFatal: ({ code }) => console.log('fatal', code) })
      const ingest = createIngest({ store })
      const project = ingest.project('p0')
      try {
        await project.submitBatch({ events: [{ ...${JSON.stringify(eventOf('p0', '', undefined))}, eventId: 'process-' + process.pid }] })
        console.log('ok')
      } catch ({ code, message }) { console.log(code, message) }
      await ended
      await ingest.close()
    } catch ({ code, message }) { console.log(code, message) }
    process.stdin.destroy()`
  await measure('processes on the directory', count.processes, async () => {
    /** @type {Map<string, number>} */
    const outcomes = new Map()
    const children = []
    for (let i = 0; i < count.processes; i++) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', program, directory], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      const first = new Promise((resolve) => child.stdout.once('data', resolve).once('end', () => resolve('no output')))
      const outcome = String(await first).trim()
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      children.push({ child, ended: once(child, 'close') })
    }
    for (const { child } of children) child.stdin.end()
    await Promise.all(children.map(({ ended }) => ended))
    for (const [outcome, times] of outcomes) process.stderr.write(`${times} × ${outcome}\n`)
  })
}

/** @param {string} what @param {number} number @param {() => Promise<unknown>} run */
async function measure(what, number, run) {
  if (number === 0) return
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const startedAt = performance.now()
  await run()
  const ms = performance.now() - startedAt
  delay.disable()
  addRow(what, number, ms, delay.max / 1e6, process.memoryUsage.rss() / 2 ** 20)
}

/** @param {string} what @param {number} number @param {number} ms @param {number} turnMs @param {number} memory */
function addRow(what, number, ms, turnMs, memory) {
  const row = [what, String(number), (ms / 1000).toFixed(2), turnMs.toFixed(0), memory.toFixed(0)]
  process.stderr.write(`${row.join('  ')}\n`)
  rows.push(row)
}

/** @param {number} times @param {(i: number) => Promise<unknown>} run */
async function forEach(times, run) {
  let next = 0
  async function work() {
    while (next < times) await run(next++)
  }
  await Promise.all(Array.from({ length: Math.min(inFlight, times) }, work))
}

/** @param {(options: { cursor?: string, limit: number }) => Promise<{ next: string | null }>} readPage */
async function eachPage(readPage) {
  for (let next = /** @type {string | null | undefined} */ (undefined); next !== null; ) {
    const page = await readPage({ limit: 1000, ...(next !== undefined && { cursor: next }) })
    next = page.next
  }
}

/** @param {EmbeddedIngest} ingest @param {string} projectId @param {string} eventId @param {string} [buildId] */
async function submit(ingest, projectId, eventId, buildId) {
  const events = [/** @type {any} */ (eventOf(projectId, eventId, buildId))]
  const { accepted } = await ingest.project(projectId).submitBatch({ events })
  if (accepted !== 1) throw new Error(`event ${eventId} of ${projectId} was not accepted`)
}

/** @param {string} projectId @param {string} eventId @param {string | undefined} buildId */
function eventOf(projectId, eventId, buildId) {
  return {
    projectId,
    eventId,
    type: 'score',
    timestamp: '2026-11-22T10:00:00Z',
    ...(buildId !== undefined && { buildId }),
  }
}

/** @template {import('node:util').ParseArgsConfig} Config @param {Config} config */
function parseOptions(config) {
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(`many: ${error instanceof Error ? error.message : error}`)
    process.exit(2)
  }
}
