/** Lines are put together into pieces of about so many bytes. */
const pieceBytes = 64 * 1024

/** NDJSON, in pieces that are worth a write of their own. When `events` fails, what came before it comes first. */
export async function* encodeNdjson(events: AsyncIterable<{ line: Buffer }>): AsyncGenerator<Buffer, void> {
  let lines: Buffer[] = []
  let bytes = 0

  function take(): Buffer {
    const piece = Buffer.concat(lines)
    lines = []
    bytes = 0
    return piece
  }

  try {
    for await (const { line } of events) {
      lines.push(line)
      bytes += line.length
      if (bytes >= pieceBytes) yield take()
    }
  } catch (error) {
    if (bytes > 0) yield take()
    throw error
  }
  if (bytes > 0) yield take()
}
