import assert from 'node:assert/strict'
import type {
  BatchResult,
  ErrorCode,
  Ingest,
  IngestError,
  MapContent,
  PublishedMap,
  PublishOptions,
  ReadEventsOptions,
} from '@ingest/core'
import { chunk } from '../store/sample-maps.ts'

/** Opens the Ingest of an empty project. */
export type OpenIngest = () => Promise<{ ingest: Ingest; close(): Promise<void> }>

/** One promise of an {@link Ingest}, embedded or over HTTP. */
export interface IngestCheck {
  /** The promise, as a fact: "a retry of the same batch changes nothing". */
  name: string
  /** Whether the check closes its Ingest. All other checks may use new projects of one Ingest. */
  isolated: boolean
  /** Resolves if the promise is kept, otherwise rejects with an `AssertionError`. Closes the Ingest that it opens. */
  run(open: OpenIngest): Promise<void>
}

/** An open Ingest with the operations of most checks. The default map is that of place `1` of build `b`. */
export interface Bench {
  ingest: Ingest
  close(): Promise<void>
  projectId: string
  event(eventId: string, members?: object): object
  submit(...events: unknown[]): Promise<BatchResult>
  events(options?: ReadEventsOptions): Promise<{ cursor: string; receivedAt: number; text: string }[]>
  publish(publication: object, options?: PublishOptions): Promise<PublishedMap>
  /** Puts these texts as chunks. */
  put(...texts: string[]): ReturnType<Ingest['putChunks']>
  /** The text of the complete map. */
  text(id?: { placeId?: string; buildId?: string }): Promise<string>
}

export function isolatedCheck(name: string, use: Parameters<typeof check>[1]): IngestCheck {
  return { ...check(name, use), isolated: true }
}

export function check(name: string, use: (bench: Bench, open: OpenIngest) => Promise<void>): IngestCheck {
  return {
    name,
    isolated: false,
    async run(open) {
      const opened = await open()
      try {
        await use(benchOf(opened), open)
      } finally {
        await opened.close()
      }
    },
  }
}

export function benchOf({ ingest, close }: Awaited<ReturnType<OpenIngest>>): Bench {
  const { projectId } = ingest
  const id = { placeId: '1', buildId: 'b' }
  return {
    ingest,
    close,
    projectId,
    event: (eventId, members) => ({ projectId, eventId, ...members }),
    submit: (...events) => ingest.submitBatch({ events: events as never[] }),
    async events(options) {
      const events = []
      for await (const { cursor, receivedAt, bytes } of ingest.readEvents(options)) {
        events.push({ cursor, receivedAt, text: Buffer.from(bytes).toString() })
      }
      return events
    },
    publish: (publication, options) => ingest.publishMap({ ...id, ...publication } as never, options),
    put: (...texts) => ingest.putChunks(texts.map(chunk)),
    async text(other) {
      const content = await ingest.getMapContent({ ...id, ...other })
      assert.ok(content, 'there is no complete map')
      return (await bytesOf(content)).toString()
    },
  }
}

export function idOf({ text }: { text: string }): string {
  return (JSON.parse(text) as { eventId: string }).eventId
}

export async function bytesOf(content: MapContent, ...range: [start?: number, end?: number]): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of content.bytes(...range)) parts.push(part)
  return Buffer.concat(parts)
}

export async function assertRefused(
  promise: Promise<unknown>,
  code: ErrorCode,
  details: { limit?: number; actual?: number } = {},
): Promise<IngestError> {
  const error = await promise.then(
    () => assert.fail(`it is not refused with ${code}`),
    (reason: unknown) => reason,
  )
  assert.ok(isRefusal(error), String(error))
  assert.equal(error.code, code)
  for (const [name, value] of Object.entries(details)) assert.equal(error[name as 'limit'], value, name)
  return error
}

/** Compares the name of the class, because the caller may have loaded another copy of it. */
export function isRefusal(error: unknown): error is IngestError {
  return error instanceof Error && error.name === 'IngestError'
}
