import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runConformance, senderRules, startCommand } from '../src/sender.ts'

const program = fileURLToPath(new URL('sender-program.js', import.meta.url))
const start = (...bug: string[]) => startCommand(process.execPath, [program, ...bug])

t.test('every rule for senders stands in the documentation', async (t) => {
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

t.test('a sender keeps all rules', async (t) => {
  const verdicts = await runConformance({ start: start(), hasSpool: true })
  for (const { id, outcome, expected, seen } of verdicts) t.equal(outcome, 'passed', `${id}: ${expected}`, { seen })
})

t.test('the rules of a spool are skipped without one', async (t) => {
  const rules = senderRules.filter(({ needsSpool }) => needsSpool).map(({ id }) => id)
  for (const { outcome } of await runConformance({ start: start(), rules })) t.equal(outcome, 'skipped')
})

t.test('an unknown rule and a command that cannot be started are refused', async (t) => {
  await t.rejects(runConformance({ start: start(), rules: ['none'] }), { code: 'invalid-argument' })
  await t.rejects(runConformance({ start: startCommand('no-such-sender') }), { code: 'invalid-argument' })
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
  'newest-first': ['order'],
  'large-batches': ['too-large', 'order'],
  'two-in-flight': ['one-in-flight'],
  'unbounded-queue': ['queue-bound'],
  'no-deadline': ['close-deadline'],
  'no-drain': ['close-drains'],
  miscount: ['outcomes'],
  'no-end': ['drop'],
  'interim-is-final': ['interim', 'interim-100'],
  'stale-connection': ['idle-connection'],
  'trim-key': ['key-line-break'],
  'quote-key': ['key-line-break'],
  'log-key': ['key-secret'],
  'no-spool': ['spool-kill', 'spool-close', 'spool-accepted', 'spool-chdir'],
  'late-spool': ['spool-accepted'],
  'unsorted-spool': ['spool-accepted'],
  'keep-dropped': ['spool-empty'],
  'relative-spool': ['spool-chdir'],
  'no-lock': ['spool-lock'],
  'timed-lock': ['spool-frozen'],
  'drop-path': ['base-path'],
  'own-project': ['project-id'],
  'drop-422': ['other-statuses'],
  'retry-after-of-two': ['retry-after-each'],
  'give-up': ['attempts'],
  'keep-backoff': ['backoff-reset'],
  'fixed-seed': ['jitter'],
  debounce: ['trickle'],
  'endless-flush': ['flush-empty'],
  'resend-rejected': ['all-rejected'],
  'unbounded-bytes': ['queue-bytes'],
}

/** The ids of the rules that pass in each of three runs: a busy machine may delay a request as long as a pause would. */
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
