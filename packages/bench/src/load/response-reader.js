/** @typedef {{ status: number, body: string }} Response */

/**
 * Reads the responses of one connection, at any chunk boundaries.
 *
 * @param {(response: Response) => void} onResponse
 * @returns {(chunk: Buffer) => void} throws at a response without Content-Length
 */
export function createResponseReader(onResponse) {
  let text = ''
  return (chunk) => {
    text += chunk.toString('latin1')
    for (;;) {
      const headEnd = text.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1]
      if (length === undefined) throw new Error(`a response without Content-Length: ${text.slice(0, 200)}`)
      const end = headEnd + 4 + Number(length)
      if (text.length < end) return
      const response = { status: Number(text.slice(9, 12)), body: text.slice(headEnd + 4, end) }
      text = text.slice(end)
      onResponse(response)
    }
  }
}
