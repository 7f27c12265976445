import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { noStrace, slowOpenings, startStoreProcess } from '../store-process.ts'

const program = fileURLToPath(new URL('counting-program.js', import.meta.url))
const openings = Number(process.env.INGEST_OPENINGS ?? 6)

t.test('openings beside commits undo none of them', { skip: noStrace }, async (t) => {
  const directory = t.testdir()
  // small runs, so that the index commits often
  const writer = await startStoreProcess(directory, { entriesPerFlush: 100 })
  t.teardown(writer.kill)
  let isOpening = true
  const opening = openAgain()
    .catch((error) => t.fail(`an opening failed: ${error.message}`))
    .finally(() => {
      isOpening = false
    })
  async function openAgain(): Promise<void> {
    for (let i = 0; i < openings; i++) {
      const other = await startStoreProcess(directory, { isSlowToOpen: true })
      await other.submit([`opened-${i}`])
      t.equal(await other.end(), 0)
    }
  }
  const acknowledged: string[] = []
  for (let i = 0; isOpening; i++) {
    const eventIds = Array.from({ length: 20 }, (_, j) => `${i}-${j}`)
    const { accepted } = await writer.submit(eventIds)
    if (accepted === 20) acknowledged.push(...eventIds)
    else t.fail(`${accepted} of 20 new events were accepted`)
  }
  await opening
  t.strictSame(await missing(acknowledged), [], `of ${acknowledged.length} acknowledged events`)
  t.strictSame(writer.fatal, [])
  t.equal(await writer.end(), 0)

  async function missing(eventIds: string[]): Promise<string[]> {
    const found: string[] = []
    for (let from = 0; from < eventIds.length; from += 1000) {
      const some = eventIds.slice(from, from + 1000)
      const known = await writer.known(some)
      found.push(...some.filter((_, i) => !known[i]))
    }
    return found
  }
})

t.test('processes that open, commit and close at the same time count every commit', { skip: noStrace }, async (t) => {
  const directory = join(t.testdir(), 'events')
  await (await openEnvironment(directory)).close()
  const counted = await Promise.all([count(directory), count(directory), count(directory, slowOpenings([directory]))])
  const { table, close } = await openEnvironment(directory)
  const total = table('log').getBinary(Buffer.from('count'))?.readDoubleLE()
  t.equal(
    total,
    counted.reduce((sum, each) => sum + each),
  )
  t.ok(counted.every((each) => each >= openings))
  await close()
})

/** How often a process opened the environment, added 1 to a count, and closed it. */
async function count(directory: string, within: string[] = []): Promise<number> {
  const node = [process.execPath, program, directory, String(openings * 10)]
  const [command = '', ...args] = ['env', '-u', 'NODE_OPTIONS', ...within, ...node]
  const child: ChildProcess = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout?.on('data', (data) => {
    output += data
  })
  const [code, signal] = await once(child, 'close')
  t.strictSame([code, signal], [0, null])
  return Number(output)
}
