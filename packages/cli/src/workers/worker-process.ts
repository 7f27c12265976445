import cluster, { type Worker } from 'node:cluster'
import { fileURLToPath } from 'node:url'
import type { MetricsJson } from '@ingest/server'
import type { Failure } from '../exit-code.ts'
import type { FromWorker, ToWorker, WorkerTask } from './messages.ts'

/** How long the metrics of a worker may take: it waits up to 2 seconds for its store. */
const collectTimeoutMs = 3000

export interface WorkerEnd {
  code: number | null
  signal: NodeJS.Signals | null
  /** What the worker said of its end. */
  failure: Failure | undefined
}

/** A worker, as the primary sees it. */
export interface WorkerProcess {
  /** Resolves when it listens, and with undefined if it ends before. */
  listening: Promise<{ url: string; port: number } | undefined>
  ended: Promise<WorkerEnd>
  send(message: ToWorker): void
  /** Ends it at once. */
  kill(): void
  /** Undefined if it does not respond in time. */
  collect(): Promise<MetricsJson | undefined>
}

/** Starts a worker. It shares the addresses that it listens on with the others. */
export function startWorkerProcess(task: WorkerTask, env: Readonly<Record<string, string | undefined>>): WorkerProcess {
  // each worker accepts by itself: a connection that Node's round robin passes to a worker that has just died stays open
  // without a response
  cluster.schedulingPolicy = cluster.SCHED_NONE
  // beside this file, in the sources as in the build
  cluster.setupPrimary({ exec: fileURLToPath(new URL('./worker.js', import.meta.url)), args: [] })
  // the primary serves the API of keys
  const worker = cluster.fork({ ...env, INGEST_ADMIN_TOKEN: '' })
  const requests = new Map<number, (metrics: MetricsJson | undefined) => void>()
  let lastNumber = 0
  let failure: Failure | undefined

  const ended = watchEnd(worker).then((end): WorkerEnd => {
    for (const settle of requests.values()) settle(undefined)
    return { ...end, failure }
  })
  const listening = new Promise<{ url: string; port: number } | undefined>((resolve) => {
    void ended.then(() => resolve(undefined))
    worker.on('message', (message: FromWorker) => {
      if (message.type === 'online') send({ type: 'start', task })
      else if (message.type === 'listening') resolve({ url: message.url, port: message.port })
      else if (message.type === 'failed') failure = message.failure
      else requests.get(message.number)?.(message.metrics)
    })
  })

  function send(message: ToWorker): void {
    // a worker that has just ended receives nothing
    if (worker.isConnected()) worker.send(message, () => {})
  }

  return {
    listening,
    ended,
    send,
    kill: () => void worker.process.kill('SIGKILL'),
    async collect() {
      if (!worker.isConnected()) return undefined
      const number = ++lastNumber
      return new Promise((resolve) => {
        const timer = setTimeout(() => settle(undefined), collectTimeoutMs)
        function settle(metrics: MetricsJson | undefined): void {
          clearTimeout(timer)
          requests.delete(number)
          resolve(metrics)
        }
        requests.set(number, settle)
        send({ type: 'collect', number })
      })
    },
  }
}

function watchEnd(worker: Worker): Promise<Omit<WorkerEnd, 'failure'>> {
  return new Promise((resolve) => {
    worker.once('exit', (code: number | null, signal: NodeJS.Signals | null) => resolve({ code, signal }))
    worker.on('error', () => {
      // a process that could not be started has no exit
      if (worker.process.pid === undefined) resolve({ code: 1, signal: null })
    })
  })
}
