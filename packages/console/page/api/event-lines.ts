import { foreignResponse, parseObject } from './ingest-response.ts'

/** One line of `GET /v1/events`. */
export interface EventLine {
  cursor: string
  /** Milliseconds since 1970; 0 for a line with only a cursor. */
  receivedAt: number
  /** The exact text of the event; undefined for an erased event and for a line with only a cursor. */
  text?: string
  /** The id of an erased event. */
  erased?: string
}

const start = /^\{"cursor":"([\w-]+)","receivedAt":(\d+),"event":/

/**
 * Parses a line without its line feed. The event's text is sliced, not parsed, so that it stays unchanged.
 *
 * @throws {RequestError} `foreign` for another text
 */
export function parseEventLine(line: string): EventLine {
  const match = start.exec(line)
  if (match) {
    const [{ length }, cursor = '', receivedAt] = match as unknown as [string, string, string]
    return { cursor, receivedAt: Number(receivedAt), text: line.slice(length, -1) }
  }
  const { cursor, receivedAt = 0, erased } = parseObject(line) as Partial<EventLine>
  if (typeof cursor !== 'string') throw foreignResponse()
  return { cursor, receivedAt, ...(erased !== undefined && { erased }) }
}

/** After this time without a byte, a response counts as interrupted. */
const stallDefaultMs = 30_000

/**
 * Yields the blocks of a body as they are received.
 *
 * @throws if the body breaks off or stalls
 */
export async function* readBlocks(
  { body }: Response,
  stallMs: number = stallDefaultMs,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  if (!body) return
  const reader = body.getReader()
  let isStalled = false
  let timer: ReturnType<typeof setTimeout> | undefined
  function stall(): void {
    isStalled = true
    reader.cancel().catch(() => {})
  }
  try {
    for (;;) {
      timer = setTimeout(stall, stallMs)
      const { done, value } = await reader.read()
      clearTimeout(timer)
      if (isStalled) throw new Error('The body stalled.')
      if (done) return
      yield value
    }
  } finally {
    clearTimeout(timer)
    reader.cancel().catch(() => {})
  }
}

/**
 * Yields the lines of `GET /v1/events` as they are received, see `readBlocks`.
 *
 * @throws {RequestError} `foreign` for another body, such as one that does not end with a line feed
 */
export async function* readEventLines(response: Response, stallMs?: number): AsyncGenerator<EventLine[]> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const block of readBlocks(response, stallMs)) {
    const lines = (rest + decoder.decode(block, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (lines.length > 0) yield lines.map(parseEventLine)
  }
  if (rest !== '') throw foreignResponse()
}
