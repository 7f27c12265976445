import { constants } from 'node:os'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { Io, StopSignal } from '../io.ts'
import type { Log } from '../serve/serve-log.ts'
import type { ServeSettings } from '../serve/serve-settings.ts'
import { decideRestart, quickEndMs } from './decide-restart.ts'
import { createWorkerMetrics, type WorkerMetrics } from './worker-metrics.ts'
import { startWorkerProcess, type WorkerEnd, type WorkerProcess } from './worker-process.ts'

export interface PoolOptions {
  env: Io['env']
  log: Log
  /** Of each worker, but for `workers`, their number. */
  settings: ServeSettings
  isMeasured: boolean
  /** Resolves when the server is to end, which it may be before the workers have started. */
  signalled: Promise<StopSignal>
}

/** The workers of a server, each restarted when it ends. */
export interface Pool {
  url: string
  port: number
  metrics: Pick<WorkerMetrics, 'render'>
  /** How many workers accept requests. */
  listeningCount(): number
  /** Passes settings on to running and later workers. */
  reload(settings: ServeSettings): void
  /** Rejects with a {@link CommandFailure} when a worker ends again and again. */
  failed: Promise<never>
  /**
   * Drains all workers, and kills those that hang. Resolves when they have ended.
   *
   * @throws {CommandFailure} if one of them did not end well
   */
  stop(signal: StopSignal): Promise<void>
}

/** How long a worker may take to close its store after it has drained, before it is killed. */
const endMarginMs = 5000

interface Slot {
  id: number
  worker?: WorkerProcess
  isListening: boolean
  quickEnds: number
}

/**
 * Starts the workers. Resolves when all accept requests.
 *
 * @throws {CommandFailure} what the first worker that fails reports; the others are ended
 */
export async function startPool({ env, log, isMeasured, signalled, ...options }: PoolOptions): Promise<Pool> {
  const count = options.settings.workers
  const slots = Array.from({ length: count }, (_, i): Slot => ({ id: i + 1, isListening: false, quickEnds: 0 }))
  const timers = new Set<NodeJS.Timeout>()
  let fail: (failure: CommandFailure) => void = () => {}
  const failed = new Promise<never>((_, reject) => {
    fail = reject
  })
  // it may fail while the pool is started or stopped
  failed.catch(() => {})
  const metrics = createWorkerMetrics(() => collectors(slots))
  let { settings } = options
  let bound: { url: string; port: number } | undefined
  let state: 'starting' | 'running' | 'stopping' = 'starting'
  let deadline: NodeJS.Timeout | undefined
  void signalled.then(setDeadline)

  /** Resolves when the worker listens, and with undefined if it ends before. */
  async function startWorker(slot: Slot): Promise<{ url: string; port: number } | undefined> {
    const startedAt = performance.now()
    // workers that listen on port 0 share a port, which is free again when all have ended
    if (bound && 'host' in settings.listen && slots.every(({ worker }) => !worker)) {
      settings = { ...settings, listen: { ...settings.listen, port: bound.port } }
    }
    const worker = startWorkerProcess({ id: slot.id, count, settings, isMeasured }, env)
    slot.worker = worker
    void worker.ended.then((end) => {
      delete slot.worker
      slot.isListening = false
      onEnd(slot, end, performance.now() - startedAt)
    })
    const address = await worker.listening
    slot.isListening = address !== undefined
    bound ??= address
    return address
  }

  function onEnd(slot: Slot, end: WorkerEnd, lifeMs: number): void {
    if (state !== 'running') {
      if (state === 'starting' || end.code !== 0) fail(toCommandFailure(slot, end))
      return
    }
    metrics.retire(slot.id)
    slot.quickEnds = lifeMs < quickEndMs ? slot.quickEnds + 1 : 0
    const pauseMs = decideRestart(slot.quickEnds)
    const { code, signal, failure } = end
    const fields = { worker: slot.id, code, signal, ...(failure && { reason: failure.message }) }
    if (pauseMs === undefined) {
      log.fatal(fields, 'a worker ended again and again: the server ends')
      fail(toCommandFailure(slot, end))
      return
    }
    log.error({ ...fields, pauseMs }, 'a worker ended: it is restarted')
    const timer = setTimeout(() => {
      timers.delete(timer)
      void startWorker(slot)
    }, pauseMs)
    timers.add(timer)
  }

  function setDeadline(): void {
    deadline ??= setTimeout(() => {
      for (const { id, worker } of slots) {
        if (!worker) continue
        log.error({ worker: id }, 'a worker did not drain in time: it is killed')
        worker.kill()
      }
    }, settings.drainTimeoutMs + endMarginMs)
  }

  async function stop(signal: StopSignal): Promise<void> {
    state = 'stopping'
    setDeadline()
    for (const timer of timers) clearTimeout(timer)
    const workers = slots.flatMap(({ worker }) => worker ?? [])
    for (const worker of workers) worker.send({ type: 'stop', signal })
    await Promise.all(workers.map(({ ended }) => ended))
    clearTimeout(deadline)
    await Promise.race([failed, Promise.resolve()])
  }

  async function startAll(): Promise<{ url: string; port: number }> {
    // alone: it may have to replace the Unix socket of a server that was killed
    const [first, ...others] = slots
    const address = await startWorker(first as Slot)
    const addresses = await Promise.all([address, ...others.map((slot) => address && startWorker(slot))])
    if (addresses.every((each) => each !== undefined)) return address as { url: string; port: number }
    return failed
  }

  const address = await Promise.race([startAll(), failed]).catch(async (error) => {
    await stop('SIGTERM').catch(() => {})
    throw error
  })
  state = 'running'
  return {
    ...address,
    metrics,
    listeningCount: () => slots.filter(({ isListening }) => isListening).length,
    failed,
    stop,
    reload(next) {
      // the others apply after a restart only
      const { logLevel, tls = settings.tls } = next
      settings = { ...settings, logLevel, ...(settings.tls && tls && { tls }) }
      for (const { worker } of slots) worker?.send({ type: 'reload', settings })
    },
  }
}

function collectors(slots: readonly Slot[]): Map<number, () => ReturnType<WorkerProcess['collect']>> {
  return new Map(slots.map(({ id, worker }) => [id, async () => worker?.collect()]))
}

function toCommandFailure({ id }: Slot, { code, signal, failure }: WorkerEnd): CommandFailure {
  if (failure) return new CommandFailure(failure)
  const status = signal === null ? (code ?? exitCode.bug) : 128 + constants.signals[signal]
  const message = `worker ${id} ended with ${signal ?? `exit code ${code}`}: see the log`
  return new CommandFailure({ exitCode: status, code: 'worker-ended', message, retryable: true })
}
