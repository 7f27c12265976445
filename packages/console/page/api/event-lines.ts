/** One line of `GET /v1/events`. */
export interface EventLine {
  cursor: string
  /** Milliseconds since 1970; 0 for a line that holds a cursor alone. */
  receivedAt: number
  /** The exact text of the event; undefined for an erased event and for a line that holds a cursor alone. */
  text?: string
  /** The id of an erased event. */
  erased?: string
}

const start = /^\{"cursor":"([\w-]+)","receivedAt":(\d+),"event":/

/** Parses a line without its line feed. The event is cut out, not parsed, so that its bytes stay as they are. */
export function parseEventLine(line: string): EventLine {
  const match = start.exec(line)
  if (match) {
    const [{ length }, cursor = '', receivedAt] = match as unknown as [string, string, string]
    return { cursor, receivedAt: Number(receivedAt), text: line.slice(length, -1) }
  }
  const { cursor, receivedAt = 0, erased } = JSON.parse(line) as Partial<EventLine>
  return { cursor: cursor ?? '', receivedAt, ...(erased !== undefined && { erased }) }
}

/** The lines of a whole body; what follows the last line feed is ignored. */
export function parseEventLines(text: string): EventLine[] {
  return text.split('\n').slice(0, -1).map(parseEventLine)
}

/** So long no byte may arrive before the connection counts as broken. */
const stallDefaultMs = 30_000

/**
 * The whole lines of a body of NDJSON as they arrive; what follows the last line feed is ignored.
 *
 * @throws if the body breaks off or stalls
 */
export async function* readLines(
  body: ReadableStream<Uint8Array>,
  stallMs: number = stallDefaultMs,
): AsyncGenerator<string[]> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
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
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      if (lines.length > 0) yield lines
    }
  } finally {
    clearTimeout(timer)
    reader.cancel().catch(() => {})
  }
}
