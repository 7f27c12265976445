import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ingest, startRun } from '../run-ingest.ts'

const program = fileURLToPath(new URL('../../../checks/test/sender-program.js', import.meta.url))
const rules = ['conformance', '--rule', 'drop', '--rule', 'redirect', '--rule', 'spool-kill']

t.test('conformance prints a line for each rule, in their order', async (t) => {
  const { code, stdout, stderr } = await ingest([...rules, '--', process.execPath, program])
  t.strictSame([code, stderr], [0, ''])
  const lines = stdout.split('\n').map((line) => line.split(/ +/).slice(0, 2).join(' '))
  t.strictSame(lines, ['✓ drop', '✓ redirect', 'skipped: 1', 'not checked:', '2 passed,', ''])
  t.match(stdout, 'skipped: 1 rule for senders with a spool, see --spool\n')
})

t.test('a rule that is broken: what was expected and seen, and exit code 5', async (t) => {
  const command = [process.execPath, program, 'follow-redirects']
  t.match(await ingest([...rules, '--', ...command]), {
    code: 5,
    stdout:
      /^✓ drop .*\n✗ redirect .*\n {4}expected: a retry .*\n {4}seen: after a 301: the other server got the key\nskipped: 1 rule .*\nnot checked: TLS /,
    stderr: 'ingest: the sender breaks 1 rule: redirect\n',
  })
  const { code, stdout } = await ingest([...rules, '--json', '--', ...command])
  t.equal(code, 5)
  const { error, rules: verdicts } = JSON.parse(stdout)
  t.match(error, { code: 'rules-failed', retryable: false })
  t.match(verdicts, [
    { id: 'drop', rule: /^400, 413: /, outcome: 'passed', seen: null, note: null, durationMs: Number },
    {
      id: 'redirect',
      outcome: 'failed',
      expected: /^a retry after/,
      seen: 'after a 301: the other server got the key',
    },
    { id: 'spool-kill', outcome: 'skipped' },
  ])
})

t.test('a program that ends at once is an error, not a broken rule', async (t) => {
  t.match(await ingest([...rules, '--', process.execPath, '-e', 'console.error("no sender")']), {
    code: 2,
    stdout: '',
    stderr: 'ingest: The program does not run: it ended with exit code 0; standard error: "no sender".\n',
  })
})

t.test('a program without counts or with wrong counts breaks the rule', async (t) => {
  const seen = async (...args: string[]) =>
    (await ingest([...rules.slice(0, 3), '--', process.execPath, ...args])).stdout
  t.match(await seen(program, 'miscount'), 'seen: the counts add up to 8 of 7 events: {"accepted":2')
  t.match(await seen(program, 'no-counts'), 'seen: the last line of standard output was "done"')
})

t.test('a signal ends the command and its programs', async (t) => {
  const args = [
    'conformance',
    '--rule',
    'key-line-break',
    '--rule',
    'faults-1',
    '--',
    process.execPath,
    program,
    'no-end',
  ]
  const { exited, nextLine, signal } = startRun(args)
  t.match(await nextLine(), /^✓ key-line-break/)
  signal('SIGINT')
  t.match(await exited, { code: 130, stderr: /^$/ })
})
