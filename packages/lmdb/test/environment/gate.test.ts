import { cpSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { openLmdbStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'

t.jobs = 2

const environments = ['events', 'chunks', 'ids']
const template = t.testdir({ data: {} })

{
  const ingest = createIngest({ store: await openLmdbStore(join(template, 'data')) })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'before' }] })
  await ingest.close()
}

/** A copy of the store with the event `before`, whose gates `damage` has damaged. */
function damagedStore(directory: string, damage: (gate: string) => void): string {
  cpSync(join(template, 'data'), directory, { recursive: true })
  for (const each of environments) damage(join(directory, each, 'gate'))
  return directory
}

const dataOf = (gate: string) => join(gate, 'data.mdb')

/** Zeroes a part of the data file in place, which a process that has the file open sees too. */
function zero(gate: string, from: number, to: number): void {
  const content = readFileSync(dataOf(gate))
  writeFileSync(dataOf(gate), content.fill(0, from, to), { flag: 'r+' })
}

const damages: Record<string, (gate: string) => void> = {
  'of zeros': (gate) => zero(gate, 0, 8192),
  'without its first page': (gate) => zero(gate, 0, 4096),
  'without its second page': (gate) => zero(gate, 4096, 8192),
  'torn within a page': (gate) => zero(gate, 512, 8192),
  'cut in its header': (gate) => truncateSync(dataOf(gate), 100),
  'cut after its first page': (gate) => truncateSync(dataOf(gate), 4096),
  foreign: (gate) => writeFileSync(dataOf(gate), 'SQLite format 3\0'.repeat(1000)),
  empty: (gate) => truncateSync(dataOf(gate), 0),
  missing: (gate) => rmSync(dataOf(gate)),
  'beside a lock file of zeros': (gate) => {
    zero(gate, 0, 8192)
    const lock = join(gate, 'lock.mdb')
    writeFileSync(lock, Buffer.alloc(readFileSync(lock).length))
  },
  'beside what is left of a process that was killed while it wrote it again': (gate) => {
    zero(gate, 4096, 8192)
    mkdirSync(join(gate, 'new-123456'))
    writeFileSync(join(gate, 'new-123456', 'data.mdb'), '')
  },
  'in a missing directory': (gate) => rmSync(gate, { recursive: true }),
}

for (const [what, damage] of Object.entries(damages)) {
  t.test(`a store opens with a gate whose data file is ${what}`, async (t) => {
    const directory = damagedStore(join(t.testdir(), 'data'), damage)
    for (const eventId of ['after', 'last']) {
      const ingest = createIngest({ store: await openLmdbStore(directory) })
      t.equal(
        (await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'before' }] })).duplicates,
        1,
      )
      t.equal((await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId }] })).accepted, 1)
      await ingest.close()
    }
    for (const each of environments) {
      t.same(
        readFileSync(dataOf(join(directory, each, 'gate'))).subarray(0, 8192),
        readFileSync(dataOf(join(template, 'data', each, 'gate'))),
      )
    }
  })
}

t.test('processes that open a store with a damaged gate at the same time count every commit', async (t) => {
  for (const what of ['of zeros', 'cut in its header', 'missing', 'in a missing directory']) {
    const damage = damages[what] as (gate: string) => void
    const directory = damagedStore(join(t.testdir(), 'data'), damage)
    const processes = await Promise.all([1, 2, 3].map(() => startStoreProcess(directory)))
    const count = async (times: number) => {
      for (let i = 0; i < times; i++) await Promise.all(processes.map((each) => each.ask('count')))
    }
    await count(20)
    t.equal(await processes[0]?.ask('count'), 61, what)
    t.strictSame(
      processes.flatMap(({ fatal }) => fatal),
      [],
    )
    t.strictSame(await Promise.all(processes.map((each) => each.end())), [0, 0, 0])
  }
})

t.test('a gate is written again beside a process that has it open', async (t) => {
  const directory = damagedStore(join(t.testdir(), 'data'), () => {})
  const live = await startStoreProcess(directory)
  t.teardown(live.kill)
  t.equal(await live.ask('count'), 1)
  for (const each of environments) zero(join(directory, each, 'gate'), 0, 8192)
  const other = await startStoreProcess(directory)
  for (let i = 0; i < 20; i++) await Promise.all([live.ask('count'), other.ask('count')])
  t.equal(await other.ask('count'), 42)
  t.equal(await other.end(), 0)
  t.equal(await live.ask('count'), 43)
  t.strictSame(live.fatal, [])
  t.equal(await live.end(), 0)
})

t.test(
  'a store whose gate was deleted is not opened beside a process that has it open',
  { skip: process.platform !== 'linux' && 'the processes that have a file open are known on Linux only' },
  async (t) => {
    const directory = damagedStore(join(t.testdir(), 'data'), () => {})
    const live = await startStoreProcess(directory)
    t.teardown(live.kill)
    rmSync(join(directory, 'events', 'gate'), { recursive: true })
    const opened = startStoreProcess(directory).then((other) => other.kill())
    await t.rejects(opened, { code: 'store-locked' })
    await live.kill()
    const next = await startStoreProcess(directory)
    t.strictSame(await next.known(['before']), [true])
    t.equal(await next.end(), 0)
  },
)
