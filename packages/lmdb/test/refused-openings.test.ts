import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { openEnvironment } from '../src/environment/environment.ts'
import { openLmdbStore } from '../src/open-lmdb-store.ts'
import { startStoreProcess } from './store-process.ts'

const notLinux = process.platform !== 'linux' && 'the files of a process are listed on Linux only'

/** How often each store is opened; a leak shows with every opening. */
const openings = Number(process.env.INGEST_OPENINGS ?? 5)

async function makeStore(directory: string): Promise<void> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const project = ingest.project('p')
  const pad = 'x'.repeat(400)
  await project.submitBatch({
    events: Array.from({ length: 20 }, (_, i) => ({ projectId: 'p', eventId: `e${i}`, pad })),
  })
  await project.publishMap({ placeId: '1', buildId: 'b', map: { walls: 1 } })
  await ingest.close()
}

/** Makes a store that refuses to open. */
type Spoil = (directory: string) => Promise<void> | void

const refusals: Record<string, { code: string; spoil: Spoil }> = {
  'without its events': {
    code: 'store-incompatible',
    spoil: (directory) => rmSync(join(directory, 'events'), { recursive: true }),
  },
  'with events of another format': {
    code: 'store-incompatible',
    async spoil(directory) {
      const { table, write, close } = await openEnvironment(join(directory, 'events'))
      const key = Buffer.from('format')
      const format = Buffer.from(table('meta').getBinary(key) as Buffer)
      format[0] = 99
      write(() => void table('meta').put(key, format))
      await close()
    },
  },
  'without its chunks': {
    code: 'store-incompatible',
    spoil: (directory) => rmSync(join(directory, 'chunks'), { recursive: true }),
  },
  'with chunks of another store': {
    code: 'store-incompatible',
    async spoil(directory) {
      await makeStore(`${directory}-other`)
      copyFileSync(join(`${directory}-other`, 'chunks', 'data.mdb'), join(directory, 'chunks', 'data.mdb'))
    },
  },
  'with truncated chunks': {
    code: 'store-incompatible',
    spoil: (directory) => truncateSync(join(directory, 'chunks', 'data.mdb'), 8192),
  },
  'with a file in place of its ids': {
    code: 'invalid-argument',
    spoil(directory) {
      rmSync(join(directory, 'ids'), { recursive: true })
      writeFileSync(join(directory, 'ids'), 'a file')
    },
  },
  'with a damaged record that its ids need': {
    code: 'store-damaged',
    spoil(directory) {
      const path = join(directory, 'events', 'data.mdb')
      const bytes = readFileSync(path)
      const page = bytes.indexOf('"eventId":"e0"') & ~4095
      bytes.fill(0, page, page + 4096)
      writeFileSync(path, bytes)
    },
  },
}

for (const [name, { code, spoil }] of Object.entries(refusals)) {
  t.test(`a store ${name} is refused, and nothing of it stays open`, { skip: notLinux }, async (t) => {
    const directory = join(t.testdir({ store: {} }), 'store')
    await makeStore(directory)
    await spoil(directory)
    const refuse = () => t.rejects(openLmdbStore(directory), { code })
    await refuse()
    const before = openFiles()
    for (let i = 0; i < openings; i++) await refuse()
    t.strictSame(openFiles(), before)
  })
}

/** How many files this process has open, and how many mappings of the files of stores. */
function openFiles() {
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    mappings: readFileSync('/proc/self/maps', 'utf8').match(/\.mdb$/gm)?.length ?? 0,
    threads: readdirSync('/proc/self/task').length,
  }
}

/** Takes all reader slots of an environment, prints how many it took, and keeps them until it ends. */
const takeAllSlots = `
  import { open } from 'lmdb'
  const roots = []
  try {
    for (;;) {
      const root = open({ path: process.argv[1], noSubdir: false, overlappingSync: false })
      root.get('x')
      roots.push(root)
    }
  } catch (error) {
    console.log(error.code, roots.length)
  }
  setInterval(() => roots, 1000)`

t.test('without a free reader slot, an opening is refused, and nothing else fails', async (t) => {
  const directory = t.testdir()
  const server = await startStoreProcess(directory)
  t.teardown(() => server.kill())
  await server.submit(['before'])
  const holder = spawn(process.execPath, ['--input-type=module', '-e', takeAllSlots, join(directory, 'events')], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => holder.kill('SIGKILL'))
  const [code, taken] = String((await once(holder.stdout, 'data'))[0]).split(' ')
  t.equal(code, '-30790')
  t.ok(Number(taken) > 900, `${taken} were free`)
  await t.rejects(openLmdbStore(directory), { code: 'overloaded', message: /Too many processes/ })
  t.equal((await server.submit(['meanwhile'])).accepted, 1)
  t.strictSame(server.fatal, [])
  const ended = once(holder, 'close')
  holder.kill('SIGKILL')
  await ended
  const store = await openLmdbStore(directory)
  t.strictSame(await store.known('p', ['before', 'meanwhile']), [true, true], 'the slots of a killed process are free')
  await store.close()
  t.strictSame(server.fatal, [])
})
