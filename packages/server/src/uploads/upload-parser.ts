import { Worker } from 'node:worker_threads'
import { type ErrorCode, type ErrorDetails, IngestError } from '@ingest/core'
import { createKeyedMutex } from '@ingest/core/internal'
import { type ParsedUploads, parsers } from './parse-upload.ts'

export interface ParseRequest {
  kind: keyof ParsedUploads
  body: Uint8Array
}

export type ParseResponse =
  | { parsed: ParsedUploads[keyof ParsedUploads] }
  | { refusal: { code: ErrorCode; message: string; details: ErrorDetails } }

/** Smaller bodies are parsed at once: that takes less time than passing them to a thread. */
export const smallBytesMax = 16_384

const inTurn = createKeyedMutex()
/** The thread of this process, started with the first large body. */
let thread: ParserThread | undefined

/**
 * Parses the body of an upload. Large bodies are parsed in a thread, one at a time, round-robin over projects: a body
 * of a few megabytes with many names would block other requests too long.
 *
 * @throws {IngestError} see {@link parsers}; the reason of a signal that aborts before parsing starts
 */
export async function parseUpload<Kind extends keyof ParsedUploads>(
  projectId: string,
  kind: Kind,
  body: Uint8Array,
  { signal }: { signal?: AbortSignal } = {},
): Promise<ParsedUploads[Kind]> {
  if (body.length <= smallBytesMax) return parsers[kind](body)
  return inTurn(projectId, async () => {
    signal?.throwIfAborted()
    thread ??= startThread(() => {
      thread = undefined
    })
    const response = await thread.parse({ kind, body })
    // the thread cannot run, for example in a program that was bundled into one file
    if (response === undefined) return parsers[kind](body)
    if ('parsed' in response) return response.parsed as ParsedUploads[Kind]
    const { code, message, details } = response.refusal
    throw new IngestError(code, message, details)
  })
}

interface ParserThread {
  /** Undefined if the thread has ended. */
  parse(request: ParseRequest): Promise<ParseResponse | undefined>
}

function startThread(onEnd: () => void): ParserThread {
  const worker = new Worker(new URL('./upload-worker.js', import.meta.url), { execArgv: [], env: {} })
  const waiting: ((response: ParseResponse | undefined) => void)[] = []
  worker.unref()
  worker.on('message', (response: ParseResponse) => {
    waiting.shift()?.(response)
    if (waiting.length === 0) worker.unref()
  })
  // without a listener, an error would end the process; 'exit' follows the error
  worker.on('error', () => {})
  worker.on('exit', () => {
    onEnd()
    for (const settle of waiting.splice(0)) settle(undefined)
  })
  return {
    parse: (request) =>
      new Promise((resolve) => {
        waiting.push(resolve)
        worker.ref()
        worker.postMessage(request)
      }),
  }
}
