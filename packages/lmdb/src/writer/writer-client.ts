import type { IngestError, StoreCommit } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import type { RebuildProgress } from '../ids/id-index.ts'
import type { Position } from '../log/record.ts'
import type { SeenWriter } from '../log/snapshot-reader.ts'
import { writerSlot } from '../threads/exit-guard.ts'
import { type RequestClient, startRequestClient } from '../threads/request-client.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { Appended, BatchToAppend, FirstBatch } from './append-batch.ts'
import { bytesOf, type CommandResults } from './commands.ts'
import type { ErasureResults, ErasureType } from './erasures.ts'
import type { FromWriter, WriterData, WriterRequest, WriterSize } from './writer.ts'

/** The writer of this process. Results are durable when they resolve. */
export interface Writer extends CommandRunner<CommandResults>, SeenWriter {
  /**
   * Appends a batch. Transfers the memory of the body and of the rows to the writer. Calls `onCommit` before it
   * resolves.
   *
   * @throws {IngestError} the codes of {@link RequestClient.request}, `store-damaged`
   */
  append(batch: BatchToAppend | FirstBatch, onCommit?: (commit: StoreCommit) => void): Promise<Appended>
  /** The positions of the events with these ids, in all that was committed before the call. */
  locate(project: number, eventIds: string[], fingerprints: Uint32Array): Promise<(Position | undefined)[]>
  /** The size of the log and its index. */
  measure(): Promise<WriterSize>
  /** The requests that are queued or being handled. */
  inFlight(): { requests: number; bytes: number }
  /** Runs a step of erasing in a transaction; resolves once it is durable. */
  erasure<Type extends ErasureType>(
    step: ErasureResults[Type]['step'] & { type: Type },
  ): Promise<ErasureResults[Type]['result']>
  /** Why nothing can be written now. */
  unavailable(): IngestError | undefined
  /** Refuses new requests, and resolves when queued ones are settled and the writer has ended, or cannot end. */
  close(): Promise<void>
}

export interface WriterOptions {
  environment: Environment
  data: Omit<WriterData, 'seen'>
  /** Like {@link RequestClientOptions.onFatal}. */
  onFatal: (error: IngestError) => void
  onProgress: (progress: RebuildProgress) => void
  /** Called when blobs were marked as garbage. */
  onGarbage: () => void
  /** Called after each commit. */
  onCommit: (commit: StoreCommit) => void
  /** A commit that takes longer has failed: after an I/O error an LMDB commit may never return. */
  timeoutMs: number
}

/** Starts the writer thread; resolves once it has caught up with the log. */
export async function startWriter(options: WriterOptions): Promise<Writer> {
  const { environment, onFatal, onProgress, onGarbage, onCommit, timeoutMs } = options
  const seen = new BigInt64Array(new SharedArrayBuffer(8))
  const data: WriterData = { ...options.data, seen }
  const thread: RequestClient<WriterRequest> = await startRequestClient({
    module: new URL('./write-worker.js', import.meta.url),
    data,
    slot: writerSlot,
    onFatal,
    lockHolder: environment.lockHolder,
    newestTransaction: environment.newestTransaction,
    onMessage(message: FromWriter) {
      if (message.type === 'garbage') onGarbage()
      else if (message.type === 'progress') onProgress(message.progress)
    },
    onCommit,
    timeoutMs,
  })

  return {
    append(batch, onCommit) {
      const { body, rows } = batch
      const transfer = [body.buffer as ArrayBuffer, rows.buffer as ArrayBuffer]
      return thread.request({ type: 'append', ...batch }, body.length, { transfer, onCommit })
    },

    locate(project, eventIds, fingerprints) {
      const bytes = eventIds.reduce((sum, eventId) => sum + eventId.length, fingerprints.byteLength)
      return thread.request({ type: 'locate', project, eventIds, fingerprints }, bytes)
    },

    run: (command) => thread.request({ type: 'command', command }, bytesOf(command)),

    lastSeen: () => Number(Atomics.load(seen, 0)),
    measure: () => thread.request({ type: 'measure' }, 0),
    inFlight: thread.inFlight,
    erasure: (step) => thread.request({ type: 'erasure', step }, erasureBytes),

    fail: thread.fail,
    failure: thread.failure,
    unavailable: thread.unavailable,
    close: thread.close,
  }
}

/** The bytes that a step of erasing counts while it is queued. */
const erasureBytes = 256
