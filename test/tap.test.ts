import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from './repository.ts'

const good = `
  import t from 'tap'
  t.test('works', async (t) => t.equal(1, 1))
`

t.test('every failure of a test file is reported and counted', async (t) => {
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
    /^✗ test\/broken.js: ended with exit code 1 before any test$/,
    /^✗ test\/empty.js: no tests found$/,
    /^✗ test\/failing.js › fails › inside › one is two$/,
    /^✗ test\/failing.js: 2 passed, 1 failed /,
    /^✓ test\/good.js: 1 passed, 0 failed /,
    /^✗ test\/killed.js: killed by SIGKILL$/,
    /^✗ test\/killed.js: 1 passed, 1 failed /,
    /^✗ test\/unending.js › never ends › timeout!$/,
    /^✗ test\/unending.js: killed by SIGALRM$/,
    /^✗ test\/leaving.js › leaves in between › test unfinished$/,
    /^skipped: test\/skipped.js › needs a moon: no moon here$/,
  ]) {
    t.ok(
      lines.some((line) => expected.test(line)),
      String(expected),
    )
  }
  t.equal(lines.at(-1), '5 passed, 7 failed, 1 skipped')
  t.equal(exitCode, 1)
})

t.test('a run without a test fails', async (t) => {
  const { lines, exitCode } = await runTap(makeProject({}))
  t.strictSame(lines.slice(-2), ['no test ran', '0 passed, 0 failed'])
  t.equal(exitCode, 1)
})

/** A project with these tests. */
function makeProject(tests: Record<string, string>): string {
  const directory = mkdtempSync(join(tmpdir(), 'ingest-tap-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
  mkdirSync(join(directory, 'test'))
  execFileSync('git', ['init', '--quiet'], { cwd: directory })
  for (const [file, text] of [
    ['package.json', '{ "type": "module" }'],
    ...Object.entries(tests).map(([name, text]) => [`test/${name}`, text]),
  ]) {
    writeFileSync(join(directory, String(file)), String(text))
  }
  return directory
}

/** Runs all tests of a project; without any, none is found. */
function runTap(directory: string): Promise<{ lines: string[]; exitCode: unknown }> {
  // this test runs under tap, which tells its children so
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^_?TAP/.test(name)))
  return new Promise((resolve) => {
    const tests = readdirSync(join(directory, 'test')).map((name) => `test/${name}`)
    const program = join(root, 'scripts/tap.js')
    execFile(process.execPath, [program, ...tests], { cwd: directory, env }, (error, stdout) => {
      resolve({ lines: stdout.trimEnd().split('\n'), exitCode: error?.code ?? 0 })
    })
  })
}
