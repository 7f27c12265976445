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

/** Parses a line without its line feed. The event's text is sliced, not parsed, so that it stays unchanged. */
export function parseEventLine(line: string): EventLine {
  const match = start.exec(line)
  if (match) {
    const [{ length }, cursor = '', receivedAt] = match as unknown as [string, string, string]
    return { cursor, receivedAt: Number(receivedAt), text: line.slice(length, -1) }
  }
  const { cursor, receivedAt = 0, erased } = JSON.parse(line) as Partial<EventLine>
  return { cursor: cursor ?? '', receivedAt, ...(erased !== undefined && { erased }) }
}

/** Parses a whole body; text after the last line feed is ignored. */
export function parseEventLines(text: string): EventLine[] {
  return text.split('\n').slice(0, -1).map(parseEventLine)
}

/** After this time without a byte, a response counts as interrupted. */
const stallDefaultMs = 30_000

/**
 * Yields the blocks of a body as they are received.
 *
 * @throws if the body breaks off or stalls
 */
export async function* readBlocks(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  stallMs: number = stallDefaultMs,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
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
 * Yields the lines of an NDJSON body as they are received, see `readBlocks`; text after the last line feed is ignored.
 */
export async function* readLines(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  stallMs?: number,
): AsyncGenerator<string[]> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const block of readBlocks(body, stallMs)) {
    const lines = (rest + decoder.decode(block, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (lines.length > 0) yield lines
  }
}
