import type { MetricsJson } from '@ingest/server'
import type { Failure } from '../exit-code.ts'
import type { StopSignal } from '../io.ts'
import type { ServeSettings } from '../serve/serve-settings.ts'

/** What a worker is to do. */
export interface WorkerTask {
  /** From 1. */
  id: number
  /** The number of workers. */
  count: number
  settings: ServeSettings
  isMeasured: boolean
}

/** From the primary to a worker. */
export type ToWorker =
  | { type: 'start'; task: WorkerTask }
  | { type: 'stop'; signal: StopSignal }
  | { type: 'reload'; settings: ServeSettings }
  | { type: 'collect'; number: number }

/** From a worker to the primary. */
export type FromWorker =
  | { type: 'online' }
  | { type: 'listening'; url: string; port: number }
  | { type: 'collected'; number: number; metrics: MetricsJson }
  | { type: 'failed'; failure: Failure }
