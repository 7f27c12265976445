import { type MessagePort, parentPort } from 'node:worker_threads'
import { IngestError } from '@ingest/core'
import { lowerThreadPriority } from '@ingest/core/internal'
import { parsers } from './parse-upload.ts'
import type { ParseRequest, ParseResponse } from './upload-parser.ts'

// The thread that parses large bodies, one after another.

// yield to threads that serve requests
lowerThreadPriority(10)

const port = parentPort as MessagePort

port.on('message', ({ kind, body }: ParseRequest) => {
  port.postMessage(parse(kind, body))
})

function parse(kind: ParseRequest['kind'], body: Uint8Array): ParseResponse {
  try {
    return { parsed: parsers[kind](body) }
  } catch (error) {
    if (!(error instanceof IngestError)) throw error
    const { code, message, issues, limit, actual } = error
    const limits = limit !== undefined && actual !== undefined && { limit, actual }
    return { refusal: { code, message, details: { ...(issues && { issues }), ...limits } } }
  }
}
