import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from './repository.ts'

const good = `
  import t from 'tap'
  import { used } from '../covered.js'
  t.test('works', async (t) => t.equal(used(), 1))
`

t.test('whatever can go wrong with a test file is told and counted', async (t) => {
  const { lines, exitCode } = await runTap(
    makeProject({
      'broken.js': 'const const',
      'empty.js': `import 'tap'`,
      'failing.js': `${good}
          t.test('fails', async (t) => {
            t.test('inside', async (t) => t.equal(1, 2, 'one is two'))
            t.test('and goes on', async () => {})
          })`,
      'good.js': good,
      'killed.js': `${good}
          t.test('is killed', async () => process.kill(process.pid, 'SIGKILL'))`,
      'unending.js': `${good}
          t.test('never ends', async () => new Promise((resolve) => setTimeout(resolve, 60_000)))
          t.setTimeout(500)`,
      'leaving.js': `
          import t from 'tap'
          t.test('leaves in between', async () => process.exit(0))`,
      'skipped.js': `
          import t from 'tap'
          t.test('needs a moon', { skip: 'no moon here' }, async (t) => t.fail())`,
    }),
  )
  for (const expected of [
    /^✗ test\/broken.js$/,
    /^✗ test\/empty.js: no tests found$/,
    /^✗ test\/failing.js › fails › inside › one is two$/,
    /^✗ test\/failing.js: 2 passed, 1 failed /,
    /^✓ test\/good.js: 1 passed, 0 failed /,
    /^✗ test\/killed.js: killed by SIGKILL$/,
    /^✗ test\/killed.js: 1 passed, 1 failed /,
    /^✗ test\/unending.js: out of time$/,
    /^✗ test\/leaving.js/,
    /^skipped: test\/skipped.js › needs a moon: no moon here$/,
    /^coverage: \d.* of functions, needed are 90 %; most is missing in covered.js \(\d.* %\)$/,
  ]) {
    t.ok(
      lines.some((line) => expected.test(line)),
      String(expected),
    )
  }
  t.equal(lines.at(-1), '5 passed, 7 failed, 1 skipped')
  t.equal(exitCode, 1)
})

t.test('too little coverage fails, unless only some files are run', async (t) => {
  const directory = makeProject({ 'good.js': good })
  const whole = await runTap(directory)
  t.match(whole.lines.at(-2), /^coverage: .* of functions/)
  t.strictSame([whole.lines.at(-1), whole.exitCode], ['1 passed, 0 failed', 1])

  const part = await runTap(directory, 'test/good.js')
  t.strictSame([part.lines.at(-1), part.exitCode], ['1 passed, 0 failed', 0])
})

t.test('a run without a test fails', async (t) => {
  const { lines, exitCode } = await runTap(makeProject({}), 'test/nowhere.js')
  t.strictSame(lines.slice(-2), ['no test ran', '0 passed, 0 failed'])
  t.equal(exitCode, 1)
})

/** A project with these tests, which is not below `.tap`, as `t.testdir()` is: tap looks for no tests there. */
function makeProject(tests: Record<string, string>): string {
  const directory = mkdtempSync(join(tmpdir(), 'ingest-tap-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
  mkdirSync(join(directory, 'test'))
  for (const [file, text] of [
    ['.taprc', 'include:\n  - test/*.js\n'],
    ['package.json', '{ "type": "module" }'],
    ['covered.js', 'export const used = () => 1\nexport const unused = () => 2\n'],
    ...Object.entries(tests).map(([name, text]) => [`test/${name}`, text]),
  ]) {
    writeFileSync(join(directory, String(file)), String(text))
  }
  return directory
}

function runTap(directory: string, ...args: string[]): Promise<{ lines: string[]; exitCode: unknown }> {
  // this test runs under tap, which tells its children so
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^_?TAP/.test(name)))
  return new Promise((resolve) => {
    execFile(process.execPath, [join(root, 'scripts/tap.js'), ...args], { cwd: directory, env }, (error, stdout) => {
      resolve({ lines: stdout.trimEnd().split('\n'), exitCode: error?.code ?? 0 })
    })
  })
}
