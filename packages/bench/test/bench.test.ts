import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const program = fileURLToPath(new URL('../src/bench.js', import.meta.url))

/** Without what tap puts into every child: each of the many processes of a run would load all of tap. */
function bench(...args: string[]) {
  return promisify(execFile)('env', ['-u', 'NODE_OPTIONS', process.execPath, program, ...args])
}

t.test('a tiny run measures, and writes its report', async (t) => {
  const directory = t.testdir({ stores: {}, out: {} })
  const out = join(directory, 'out')
  const { stdout } = await bench('--smoke', '--directory', join(directory, 'stores'), '--out', out)
  t.match(stdout, /measured too small to judge: HTTP, durable, against a server that only parses/)
  t.match(stdout, /not measured: the same, against Fastify \+ PostgreSQL/)
  t.strictSame(readdirSync(join(directory, 'stores')), [], 'nothing is left behind')

  const report = readFileSync(join(out, 'latest.md'), 'utf8')
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
  const svg = readFileSync(join(out, 'latest.svg'), 'utf8')
  t.match(svg, />Ingest over HTTP</)
  t.notMatch(svg, /NaN|undefined|Infinity/)
  const [raw] = readdirSync(out).filter((file) => file.endsWith('-smoke.json'))
  const { results, machine } = JSON.parse(readFileSync(join(out, raw ?? ''), 'utf8'))
  t.ok(results.throughput[0].ours.eventsPerSecond > 0)
  t.ok(machine.length > 0)
})

t.test('an unknown benchmark is refused by name', async (t) => {
  for (const args of [['--only', 'mongo'], ['--parts', 'naps'], ['nothing'], ['--rounds', 'many']]) {
    await t.rejects(bench(...args), { code: 1, stderr: new RegExp(`no figures: .*"${args.at(-1)}"`) })
  }
})

t.test('--help lists the benchmarks', async (t) => {
  t.match((await bench('--help')).stdout, /pnpm bench --quick/)
})
