import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { noPostgres } from '../../postgres/test/database.ts'
import { mixes } from '../src/measure-mixed.js'
import { postgresLoads } from '../src/measure-postgres.js'
import { contendersOfRound, inTurn } from '../src/plan.js'

const program = fileURLToPath(new URL('../src/bench.js', import.meta.url))

/** Without what tap puts into every child: each of the many processes of a run would load all of tap. */
function bench(...args: string[]) {
  return promisify(execFile)('env', ['-u', 'NODE_OPTIONS', process.execPath, program, ...args])
}

t.test('each contender is the first in turn', async (t) => {
  const contenders = ['a', 'b', 'c'].map((name) => ({ name, isPeer: name === 'b' }))
  const order = (round: number) => contendersOfRound(contenders as never, round).map(({ name }) => name)
  t.strictSame([0, 1, 2, 3].map(order), [
    ['a', 'b', 'c'],
    ['c', 'a'],
    ['a', 'c'],
    ['b', 'c', 'a'],
  ])
  t.strictSame(
    [0, 1, 2, 3].map((round) => inTurn(['a', 'b', 'c'], round).join('')),
    ['abc', 'bca', 'cab', 'abc'],
  )
})

t.test('a tiny run measures, and writes its report', async (t) => {
  const directory = t.testdir({ stores: {}, out: {} })
  const out = join(directory, 'out')
  const options = ['--directory', join(directory, 'stores'), '--out', out]
  const { stdout, stderr } = await bench('--smoke', '--sizes', '3000,1000,1000000M', ...options)
  t.match(stdout, /measured too small to judge: events\/s over HTTP, durable, against the floor/)
  t.match(stdout, /not measured: events\/s against Fastify \+ PostgreSQL/)
  t.strictSame(readdirSync(join(directory, 'stores')), [], 'nothing is left behind')

  t.strictSame(readdirSync(out), ['smoke.json', 'smoke.md', 'smoke.svg'], 'the newest full report stays')

  const report = readFileSync(join(out, 'smoke.md'), 'utf8')
  for (const heading of [
    'Targets',
    'Machine',
    'Throughput',
    'Other loads',
    'Growth',
    'Recovery',
    'What this does not prove',
  ]) {
    t.match(report, `\n## ${heading}\n`)
  }
  const svg = readFileSync(join(out, 'smoke.svg'), 'utf8')
  t.match(svg, />Ingest over HTTP</)
  t.notMatch(svg, /NaN|undefined|Infinity/)
  const { results, machine } = JSON.parse(readFileSync(join(out, 'smoke.json'), 'utf8'))
  t.ok(results.throughput[0].ours.eventsPerSecond > 0)
  t.ok(machine.length > 0)
  const [{ floor, ours }] = results.mixed
  t.strictSame(Object.keys(floor), ['new', 'single', 'connections-1', 'connections-4', 'connections-64'])
  t.strictSame(
    Object.keys(ours),
    mixes.map(({ name }) => name),
  )
  const { filled, rounds, skipped } = results.growth
  t.match(filled, [{ size: 1000 }, { size: 3000 }])
  t.match(rounds, [
    { floor: { 0: {} }, ours: { 0: { stored: 0 }, 1000: { stored: 1000 } } },
    { floor: { 0: {} }, ours: { 0: { stored: 0 }, 3000: { stored: 3000 } } },
  ])
  const reason = /GB would be needed, and \d+ GB are free/
  t.match(skipped, [{ size: 1e12, contender: 'ours', reason }])
  t.match(stderr, reason)
  t.match(report, reason)
  if (!existsSync('/proc/self/task')) return
  for (const run of [
    results.throughput[0].ours,
    ours.again,
    ours.single,
    rounds[1].ours[3000],
    results.uploads.rounds[0].during,
  ])
    t.match(run.processor, { main: Number, writer: Number, helpers: Number })
  t.match(results.throughput[0].floor.processor, { main: Number, helpers: Number, writer: undefined })
})

t.test('a tiny run on PostgreSQL measures what is written', { skip: noPostgres }, async (t) => {
  const directory = t.testdir({ stores: {}, out: {} })
  const out = join(directory, 'out')
  const options = ['--directory', join(directory, 'stores'), '--out', out]
  const { stdout } = await bench('postgres', '--smoke', ...options)
  t.match(stdout, /not measured: events\/s against Fastify with raw INSERT/)
  t.match(stdout, /measured too small to judge: events\/s against our LMDB store over HTTP/)
  t.strictSame(readdirSync(join(directory, 'stores')), [], 'nothing is left behind')
  t.strictSame(readdirSync(out), ['smoke-postgres.json', 'smoke-postgres.md'])
  t.match(readFileSync(join(out, 'smoke-postgres.md'), 'utf8'), /\| new, random ids \| Ingest on PostgreSQL \| \d/)
  const { results } = JSON.parse(readFileSync(join(out, 'smoke-postgres.json'), 'utf8'))
  const [{ ours, 'ours-postgres': onPostgres }] = results.loads
  const names = postgresLoads.map(({ name }) => name)
  t.strictSame(Object.keys(ours), names)
  t.strictSame(Object.keys(onPostgres), names)
  t.match(onPostgres.new, { walBytes: Number, diskBytes: Number })
  t.match(results.growth, [
    { contender: 'ours-postgres', size: 2000, idVersion: 4, rounds: [{}] },
    { contender: 'ours-postgres', size: 2000, idVersion: 7, rounds: [{}] },
  ])
})

t.test('a tiny store is measured as it grows', async (t) => {
  const directory = t.testdir({ stores: {}, out: {} })
  const out = join(directory, 'out')
  await bench('ids', '--smoke', '--sizes', '300k,1k,1000000M', '--directory', join(directory, 'stores'), '--out', out)
  t.strictSame(readdirSync(join(directory, 'stores')), [], 'nothing is left behind')
  t.strictSame(readdirSync(out), ['latest-ids.json', 'latest-ids.md'])
  const { sizes } = JSON.parse(readFileSync(join(out, 'latest-ids.json'), 'utf8'))
  const load = { openMs: Number, idsPerSecond: Number, p99Ms: Number }
  t.match(sizes, [
    { ids: 1000, killed: load },
    { ids: Number, killed: load },
  ])
  // the load of one size may go beyond the next
  t.ok(sizes[1].ids >= 300_000, sizes[1].ids)
  for (const { limited, skipped } of sizes)
    t.match({ limited, skipped }, skipped ? { skipped: String } : { limited: load })
  t.match(readFileSync(join(out, 'latest-ids.md'), 'utf8'), /\n\| 1,000 \| \d[^\n]*\n\| [\d,]+ \| /)
})

t.test('an unknown benchmark is refused by name', async (t) => {
  for (const args of [['--only', 'mongo'], ['--parts', 'naps'], ['nothing'], ['--rounds', 'many']]) {
    await t.rejects(bench(...args), { code: 1, stderr: new RegExp(`no figures: .*"${args.at(-1)}"`) })
  }
})

t.test('--help lists the benchmarks', async (t) => {
  t.match((await bench('--help')).stdout, /pnpm bench --quick/)
})
