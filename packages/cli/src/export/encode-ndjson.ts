const chunkBytes = 64 * 1024

/** NDJSON in chunks of at least 64 KiB, except the last. Lines before an error of `events` are yielded before it is thrown. */
export async function* encodeNdjson(events: AsyncIterable<{ line: Buffer }>): AsyncGenerator<Buffer, void> {
  let lines: Buffer[] = []
  let bytes = 0

  function flush(): Buffer {
    const chunk = Buffer.concat(lines)
    lines = []
    bytes = 0
    return chunk
  }

  try {
    for await (const { line } of events) {
      lines.push(line)
      bytes += line.length
      if (bytes >= chunkBytes) yield flush()
    }
  } catch (error) {
    if (bytes > 0) yield flush()
    throw error
  }
  if (bytes > 0) yield flush()
}
