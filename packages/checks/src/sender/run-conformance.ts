import { IngestError } from '@ingest/core'
import { BrokenRule, type Play, runPlay, SkippedRule } from './play.ts'
import type { StartProgram } from './program.ts'
import { connectionRules } from './rules/connections.ts'
import { faultRules } from './rules/faults.ts'
import { outputRules } from './rules/output.ts'
import { pauseRules } from './rules/pauses.ts'
import { queueRules } from './rules/queue.ts'
import { requestRules } from './rules/requests.ts'
import { retryRules } from './rules/retries.ts'
import { makeEvents, type Rule } from './rules/rule.ts'
import { spoolRules } from './rules/spool.ts'

/** All rules, in the order of their verdicts. */
export const senderRules: readonly Rule[] = [
  ...requestRules,
  ...outputRules,
  ...connectionRules,
  ...retryRules,
  ...pauseRules,
  ...queueRules,
  ...spoolRules,
  ...faultRules,
]

/** What no rule checks, for the end of a report. */
export const notChecked =
  'TLS and proxies, power loss, a full disk, a wall clock that is set while the program runs, a spool of another project, threads, memory, and what takes hours'

/** Whether a program keeps a rule. */
export interface Verdict {
  id: string
  /** The sentence in the documentation. */
  rule: string
  outcome: 'passed' | 'failed' | 'skipped'
  expected: string
  /** What a failed rule saw instead; otherwise null. */
  seen: string | null
  /** Why the rule was skipped, or which part could not be checked here; otherwise null. */
  note: string | null
  durationMs: number
}

export interface ConformanceOptions {
  start: StartProgram
  /** The ids of the rules to judge. Default: all. */
  rules?: readonly string[] | undefined
  /** Whether the sender has a spool. If not, the rules for it are skipped. Default false. */
  hasSpool?: boolean | undefined
  /** How long a step of the program may take, such as to start and send, in milliseconds. Default 30,000. */
  patienceMs?: number | undefined
  /** Ends the run, which rejects with the reason of the signal. */
  signal?: AbortSignal | undefined
  /** Called with each verdict, in the order of {@link senderRules}. */
  onVerdict?: ((verdict: Verdict) => void) | undefined
}

const defaultPatienceMs = 30_000

/** The number of programs that run at once. */
const concurrency = 4

/**
 * Judges the program of a sender: starts it once for each rule, with a server that responds as the rule needs. A sender
 * that keeps all rules may still have the faults that {@link notChecked} names, or faults in callbacks and options that
 * the program does not set.
 *
 * @throws {IngestError} `invalid-argument` for an unknown rule, and if the program cannot be started, or ends before its
 *   sender has taken an event
 *
 * @experimental
 */
export async function runConformance(options: ConformanceOptions): Promise<Verdict[]> {
  const { rules: ids, hasSpool = false, onVerdict } = options
  const unknown = ids?.find((id) => !senderRules.some((rule) => rule.id === id))
  if (unknown !== undefined) throw new IngestError('invalid-argument', `There is no rule '${unknown}'.`)
  const rules = senderRules.filter(({ id }) => ids === undefined || ids.includes(id))
  const isSkipped = (rule: Rule) => rule.needsSpool === true && !hasSpool
  if (!rules.every(isSkipped)) await checkStart(options)
  const ending = new AbortController()
  const signal = AbortSignal.any([ending.signal, ...(options.signal ? [options.signal] : [])])
  const verdicts: Verdict[] = []
  let next = 0
  let reported = 0

  async function work(): Promise<void> {
    for (let i = next++; i < rules.length; i = next++) {
      const rule = rules[i] as Rule
      signal.throwIfAborted()
      verdicts[i] = await judge(rule, { ...options, signal, isSkipped: isSkipped(rule) })
      for (let verdict = verdicts[reported]; verdict; verdict = verdicts[++reported]) onVerdict?.(verdict)
    }
  }

  const workers = Array.from({ length: concurrency }, work)
  try {
    await Promise.all(workers)
  } catch (error) {
    ending.abort(error)
    await Promise.allSettled(workers)
    throw error
  }
  return verdicts
}

/** @throws {IngestError} `invalid-argument` if the program ends before its sender has taken an event */
async function checkStart({ start, patienceMs = defaultPatienceMs, signal }: ConformanceOptions): Promise<void> {
  const settings = { closeMs: 0 }
  const script = async (play: Play) => {
    play.serve((exchange) => exchange.accept())
    play.send(makeEvents(1))
    if (await play.takes(1)) return
    const { how } = await play.exit()
    throw new IngestError('invalid-argument', `The program does not run: it ended with ${how}.`)
  }
  await runPlay({ start, settings, patienceMs, signal: signal ?? new AbortController().signal }, script).catch(
    (error) => {
      // the rules judge a program that runs
      if (!(error instanceof BrokenRule)) throw error
    },
  )
}

interface JudgeOptions extends ConformanceOptions {
  signal: AbortSignal
  isSkipped: boolean
}

async function judge(
  { id, rule, expected, settings = {}, play }: Rule,
  { start, patienceMs = defaultPatienceMs, signal, isSkipped }: JudgeOptions,
): Promise<Verdict> {
  const startedAt = performance.now()
  const verdict = (outcome: Verdict['outcome'], { seen = null, note = null }: Partial<Verdict>): Verdict => {
    return { id, rule, outcome, expected, seen, note, durationMs: Math.round(performance.now() - startedAt) }
  }
  if (isSkipped) return verdict('skipped', { note: 'for senders with a spool' })
  try {
    return verdict('passed', { note: await runPlay({ start, settings, patienceMs, signal }, play) })
  } catch (error) {
    if (error instanceof BrokenRule) return verdict('failed', { seen: error.message })
    if (error instanceof SkippedRule) return verdict('skipped', { note: error.message })
    throw error
  }
}
