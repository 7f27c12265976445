import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makePlot } from '../src/plot.js'
import { withFigures } from '../src/readme-figures.js'
import { makeReport } from '../src/report.js'
import { filesOf, latest } from '../src/write-report.js'

/** Tests run in a compiled copy of the repository. */
const root = execFileSync('git', ['rev-parse', '--show-toplevel'], { encoding: 'utf8' }).trim()
const record = JSON.parse(textOf(`docs/benchmarks/${filesOf(latest).raw}`))
const remedy = 'pnpm bench report writes it again'

t.test('the README quotes the newest full run', async (t) => {
  const readme = textOf('README.md')
  t.equal(readme, withFigures(readme, record), remedy)
})

t.test('the report shows the figures that are kept beside it', async (t) => {
  t.equal(textOf(`docs/benchmarks/${latest}.md`), makeReport(record, filesOf(latest)), remedy)
  t.equal(textOf(`docs/benchmarks/${filesOf(latest).plot}`), makePlot(record), remedy)
})

t.test('figures replace what a block held, and only that', async (t) => {
  const blocks =
    '- **Fast.** <!--figures:rate-->9\n  events<!--/figures-->\n\nThen: <!--figures:ratios--><!--/figures-->\nMore\n'
  const written = withFigures(blocks, record)
  t.match(written, /^- \*\*Fast\.\*\* <!--figures:rate-->[\d,]+ events\/s over HTTP/)
  t.match(written, /\n {2}\S.*<!--\/figures-->\n\nThen: <!--figures:ratios-->[\d.]+ of the rate/)
  t.ok(written.endsWith('<!--/figures-->\nMore\n'))
  t.equal(withFigures(written, record), written)
  for (const line of written.split('\n')) t.ok(line.length <= 120, line)
})

t.test('a README without a block is refused', async (t) => {
  t.throws(() => withFigures('# Ingest\n', record), /no block <!--figures:rate-->/)
})

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}
