import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { expectRules, runConformance, type StartProgram, senderRules, startCommand } from '../src/sender.ts'

const program = fileURLToPath(new URL('sender-program.js', import.meta.url))
const start = (...bug: string[]) => startCommand(process.execPath, [program, ...bug])

t.test('every rule for senders is in the documentation', async (t) => {
  const text = ['http-api', 'senders']
    .map((page) => readFileSync(new URL(`../../../../docs/${page}.md`, import.meta.url), 'utf8'))
    .join('\n')
    // a row of a table is read as `status: what to do`
    .replace(/^\| *(.*?) *\| *(.*?) *\|$/gm, '$1: $2')
    .replace(/\s+/g, ' ')
  t.strictSame(
    senderRules.filter(({ rule }) => !text.includes(rule)).map(({ rule }) => rule),
    [],
  )
  const ids = senderRules.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
})

t.test('a sender keeps all rules', (t) => expectRules(t, { start: start(), hasSpool: true }))

t.test('the rules of a spool are skipped without one', async (t) => {
  const rules = senderRules.filter(({ needsSpool }) => needsSpool).map(({ id }) => id)
  for (const { outcome, note } of await runConformance({ start: start(), rules }))
    t.strictSame([outcome, note], ['skipped', 'for senders with a spool'])
})

t.test('a rule that cannot be checked here is skipped, or passes with a note of the missing part', async (t) => {
  const startElsewhere: StartProgram = async (variables) => {
    const { freezer: _, ...program } = await start()(variables)
    return program
  }
  const rules = ['spool-lock', 'spool-frozen']
  t.match(await runConformance({ start: startElsewhere, rules, hasSpool: true }), [
    { outcome: 'passed', note: /no PID namespace/ },
    { outcome: 'skipped', note: /there are no signals/ },
  ])
})

t.test('an unknown rule, and a command that does not start or ends at once, are refused', async (t) => {
  await t.rejects(runConformance({ start: start(), rules: ['none'] }), { code: 'invalid-argument' })
  await t.rejects(runConformance({ start: startCommand('no-such-sender') }), { code: 'invalid-argument' })
  await t.rejects(runConformance({ start: startCommand(process.execPath, ['no-such-sender.js']) }), {
    code: 'invalid-argument',
    message: /^The program does not run: it ended with exit code 1; standard error: ".*Cannot find module/,
  })
})

t.test('a process that a program leaves behind does not delay the verdict', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file')
  const isThere = 'setInterval(() => require("node:fs").existsSync(process.argv[1]) || process.exit(), 50)'
  const script = `
    const options = { detached: true, stdio: 'inherit' }
    require('node:child_process').spawn(process.execPath, ['-e', process.argv[1], process.argv[2]], options)`
  const verdicts = await runConformance({
    start: startCommand(process.execPath, ['-e', script, isThere, file]),
    rules: ['same-bytes'],
    patienceMs: 1000,
  })
  rmSync(file)
  t.match(verdicts, [{ outcome: 'failed' }])
})

t.test('a broken rule names the fault', async (t) => {
  const seen = async (rule: string, bug: string) =>
    (await runConformance({ start: start(bug), rules: [rule], patienceMs: 3000 }))[0]?.seen
  t.match(await seen('cut', 'any-400'), /^after a connection that ended after "HTTP\/1.1 400 Cut/)
  t.match(await seen('slow', 'timed-reads'), /^after a 202 whose body comes in single bytes/)
  t.match(await seen('foreign-202', 'any-202'), /^after a 202 with the body "<html>/)
})

/** The rules that a sender with this bug breaks. */
const broken: Record<string, string[]> = {
  'other-bytes': ['same-bytes'],
  'follow-redirects': ['redirect'],
  'any-202': ['foreign-202'],
  'drop-500': ['server-errors'],
  'ignore-retry-after': ['retry-after-seconds', 'retry-after-date', 'retry-after-bound'],
  'unbounded-retry-after': ['retry-after-bound'],
  'retry-401': ['unauthorized'],
  'constant-backoff': ['backoff'],
  'no-time-out': ['silence', 'slow'],
  'unbounded-body': ['endless'],
  'count-characters': ['too-large'],
  'limit-plus-one': ['too-large'],
  halve: ['drop'],
  'no-pause': ['backoff', 'refused'],
  eager: ['backoff-reset'],
  'wake-early': ['unauthorized', 'retry-after-seconds'],
  'any-end': ['cut'],
  'any-400': ['cut'],
  'lenient-seconds': ['retry-after-invalid'],
  'local-date': ['retry-after-date'],
  'seed-by-minute': ['jitter'],
  'background-flush': ['flush'],
  'unbounded-spool': ['spool-bound'],
  'stop-at-damage': ['spool-damaged'],
  'timed-reads': ['slow'],
  'early-mask': ['key-secret'],
  'late-mask': ['key-secret'],
  'newest-first': ['order'],
  'large-batches': ['too-large', 'order'],
  'two-in-flight': ['one-in-flight'],
  'unbounded-queue': ['queue-bound'],
  'no-deadline': ['close-deadline'],
  'no-drain': ['close-drains'],
  miscount: ['outcomes'],
  'no-end': ['drop'],
  'interim-is-final': ['interim', 'interim-100'],
  'stale-connection': ['idle-connection', 'drop-connection'],
  'read-ahead': ['unsolicited'],
  'trim-key': ['key-line-break'],
  'quote-key': ['key-line-break'],
  'log-key': ['key-secret'],
  'raw-log': ['control-characters'],
  'no-spool': ['spool-kill', 'spool-close', 'spool-taken', 'spool-chdir'],
  'late-spool': ['spool-taken'],
  'unsorted-spool': ['spool-taken'],
  'shared-names': ['spool-moved'],
  'keep-dropped': ['spool-empty'],
  'relative-spool': ['spool-chdir'],
  'deleted-spool': ['spool-deleted', 'spool-deleted-close'],
  'no-lock': ['spool-lock'],
  'timed-lock': ['spool-frozen'],
  'drop-path': ['base-path'],
  'own-project': ['project-id'],
  'drop-422': ['other-statuses'],
  'retry-after-of-two': ['server-errors', 'other-statuses'],
  'give-up': ['attempts'],
  'unbounded-backoff': ['attempts'],
  'keep-backoff': ['backoff-reset'],
  'fixed-seed': ['jitter'],
  debounce: ['trickle'],
  'endless-flush': ['flush-empty'],
  'resend-rejected': ['outcomes'],
  'unbounded-bytes': ['queue-bytes'],
}

/** The ids of rules that pass in each of three runs, because a busy machine may delay a request as long as a pause. */
async function passedWith(bug: string, rules: readonly string[]): Promise<readonly string[]> {
  let passed = rules
  for (let runs = 0; runs < 3 && passed.length > 0; runs++) {
    const verdicts = await runConformance({ start: start(bug), rules: passed, hasSpool: true, patienceMs: 3000 })
    passed = verdicts.filter(({ outcome }) => outcome === 'passed').map(({ id }) => id)
  }
  return passed
}

t.test('a bug breaks its rule', async (t) => {
  const bugs = Object.entries(broken)
  const runBugs = async () => {
    for (let next = bugs.pop(); next; next = bugs.pop()) t.strictSame(await passedWith(...next), [], next[0])
  }
  await Promise.all([runBugs(), runBugs(), runBugs()])
})
