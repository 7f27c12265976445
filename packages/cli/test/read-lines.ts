import type { Readable } from 'node:stream'

/** Reads a stream line by line. `next` rejects when the stream ends before another line. */
export function readLines(stream: Readable) {
  let text = ''
  let isOver = false
  let wake = () => {}
  stream.on('data', (chunk) => {
    text += chunk
    wake()
  })
  stream.on('close', () => {
    isOver = true
    wake()
  })
  return {
    async next(): Promise<string> {
      for (;;) {
        const end = text.indexOf('\n')
        if (end !== -1) {
          const line = text.slice(0, end)
          text = text.slice(end + 1)
          return line
        }
        if (isOver) throw new Error(`There are no more lines: ${JSON.stringify(text)}`)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
  }
}
