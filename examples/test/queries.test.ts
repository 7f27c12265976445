import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'

const root = fileURLToPath(new URL('../../', import.meta.url))
const directory = t.testdir()
const exported = join(directory, 'export/*.parquet')

async function run(file: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, _TAPJS_PROCESSINFO_COVERAGE_: '0' }
  return (await promisify(execFile)(process.execPath, [join(root, file), ...args], { env })).stdout
}

const picture = join(directory, 'deaths.svg')
const compare = (files: string, before: string, after: string) =>
  run('examples/queries/deaths-by-build.js', files, 'town', before, after, '100', picture)

const outlined = () => readFileSync(picture, 'utf8').match(/stroke="black"/g)?.length ?? 0

t.before(async () => {
  const store = join(directory, 'store')
  const history = ['--events', '30000', '--builds', '8', '--end', '2026-11-20T18:00:00Z']
  await run('packages/console/scripts/fill-history.js', store, ...history)
  const columns = ['--column', 'x=/position/x:float', '--column', 'z=/position/z:float']
  const files = ['--output', join(directory, 'export'), '--format', 'parquet', ...columns]
  await run('packages/cli/bin/ingest.js', 'export', '--store', store, '--project', 'demo', ...files)
})

/** The output for the traps of the history, at x -60, z 180 and at x 260, z -200, as in docs/queries.md. */
const printed = `
27 sessions of 1.42.0 and 38 of 1.42.1 in town
more deaths at x -100 to 0, z 100 to 300: in one square 0 of 27 sessions, then 31 of 38
more deaths at x 200 to 300, z -300 to -100: in one square 0 of 27 sessions, then 24 of 38
2 spots differ by more than chance
`

t.test('the deaths of two builds differ at the two new traps, and nowhere else', async (t) => {
  t.equal(`\n${await compare(exported, '1.42.0', '1.42.1')}`, printed)
  t.match(readFileSync(picture, 'utf8'), />1\.42\.0<.*>1\.42\.1</s)
  t.equal(outlined(), 2 * 4)

  const reversed = await compare(exported, '1.42.1', '1.42.0')
  t.match(reversed, 'fewer deaths at x 200 to 300, z -300 to -100: in one square 24 of 38 sessions, then 0 of 27')
})

t.test('builds without a change do not differ', async (t) => {
  t.match(await compare(exported, '1.41.0', '1.42.0'), 'in town\n0 spots differ')
  t.match(await compare(exported, '1.42.1', '1.42.2'), 'in town\n0 spots differ')
})

t.test('a build without sessions is refused, not drawn', async (t) => {
  await t.rejects(compare(exported, '1.42.0', '1.42'), /no sessions of 1\.42\.0 or 1\.42\n/)
})

t.test('without the deaths in the traps, the two builds do not differ', async (t) => {
  const harmless = join(directory, 'harmless.parquet')
  const db = await (await DuckDBInstance.create()).connect()
  await db.run(`COPY (
    SELECT * FROM '${exported}' WHERE type <> 'player.death'
      OR NOT (abs(x + 60) <= 90 AND abs(z - 180) <= 90 OR abs(x - 260) <= 90 AND abs(z + 200) <= 90)
  ) TO '${harmless}'`)
  t.equal(
    await compare(harmless, '1.42.0', '1.42.1'),
    '27 sessions of 1.42.0 and 38 of 1.42.1 in town\n0 spots differ by more than chance\n',
  )
  t.equal(outlined(), 0)
})
