import type { BatchResult } from '@ingest/core'
import { checkResult, type FilledBatch } from '../batch/fill-batch.ts'
import { createBackoff, type RetryEffects } from '../http/retry.ts'
import { decideNext, type Outcome } from './decide-next.ts'
import type { Outcomes } from './outcomes.ts'
import type { SendQueue } from './send-queue.ts'

export interface SendLoopOptions {
  queue: SendQueue
  outcomes: Outcomes
  /** Sends a batch once. */
  submit(body: Buffer, signal: AbortSignal): Promise<BatchResult>
  /** Called when sending has become impossible because the client is closed; aborts the loop. */
  onEnd(): void
  effects: Required<RetryEffects>
}

export interface AttemptStats {
  /** The number of retries. */
  retries: number
  /** The error of the last attempt; undefined after a success. */
  failure: unknown
}

/** Sends due batches, one at a time, each until it is settled or dropped. */
export interface SendLoop {
  /** Aborted when the loop ends. */
  readonly signal: AbortSignal
  attempts(): AttemptStats
  /** Starts sending if a batch is due. */
  wake(): void
  /** Ends the loop after `deadlineMs`, or earlier if the next retry would come later. */
  endWithin(deadlineMs: number): void
  /** Sends all due batches, then ends. */
  finish(): Promise<void>
  /** Aborts the request in flight. */
  abort(): void
}

export function createSendLoop({ queue, outcomes, submit, onEnd, effects }: SendLoopOptions): SendLoop {
  const { now, random, sleep } = effects
  const backoff = createBackoff({ random })
  const ending = new AbortController()
  let running: Promise<void> | undefined
  let pausedUntil = 0
  let deadlineAt = Number.POSITIVE_INFINITY
  let retries = 0
  let failure: unknown

  const abort = () => ending.abort()
  const isDue = () => !ending.signal.aborted && queue.isDue()

  function wake(): void {
    if (!running && isDue()) running = sendBatches()
  }

  async function sendBatches(): Promise<void> {
    while (isDue()) await sendBatch()
    running = undefined
  }

  /** Sends the same bytes until the batch is settled or dropped, or the loop ends. */
  async function sendBatch(): Promise<void> {
    let batch: FilledBatch
    try {
      batch = queue.firstBatch()
    } catch (error) {
      failure = error
      return pause(backoff.next())
    }
    const { body, count } = batch
    if (count === 0) return
    while (!ending.signal.aborted) {
      const outcome = await attempt(submit, body, count, ending.signal)
      // an aborted attempt has no outcome
      if ('error' in outcome && ending.signal.aborted) return
      failure = 'error' in outcome ? outcome.error : undefined
      const next = decideNext(outcome)
      if (next.action === 'settle' || next.action === 'drop') {
        backoff.reset()
        const events = queue.first(count)
        if (next.action === 'settle') outcomes.settle(next.result, events)
        else outcomes.drop(next.reason, events)
        return queue.remove(count)
      }
      if (next.action === 'end') return onEnd()
      if (next.action === 'pause') backoff.reset()
      await pause(next.action === 'pause' ? next.ms : backoff.next(next.floorMs))
    }
  }

  async function pause(ms: number): Promise<void> {
    pausedUntil = now() + ms
    if (pausedUntil >= deadlineAt) return abort()
    outcomes.retry(failure, ms)
    await sleep(ms, ending.signal).catch(() => {})
    pausedUntil = 0
    if (!ending.signal.aborted) retries++
  }

  return {
    signal: ending.signal,
    attempts: () => ({ retries, failure }),
    wake,

    endWithin(deadlineMs) {
      deadlineAt = Math.min(deadlineAt, now() + deadlineMs)
      if (Math.max(pausedUntil, now()) >= deadlineAt) abort()
      else sleep(deadlineMs, ending.signal).then(abort, abort)
    },

    async finish() {
      wake()
      await running
      abort()
    },

    abort,
  }
}

async function attempt(
  submit: SendLoopOptions['submit'],
  body: Buffer,
  count: number,
  signal: AbortSignal,
): Promise<Outcome> {
  try {
    return { result: checkResult(await submit(body, signal), count) }
  } catch (error) {
    return { error }
  }
}
