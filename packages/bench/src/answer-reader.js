/** @typedef {{ status: number, body: string }} Answer */

/**
 * Reads the answers of one connection, at any chunk boundaries. They must have a Content-Length.
 *
 * @param {(answer: Answer) => void} onAnswer
 * @returns {(piece: Buffer) => void}
 */
export function createAnswerReader(onAnswer) {
  let text = ''
  return (piece) => {
    text += piece.toString('latin1')
    for (;;) {
      const headEnd = text.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1]
      if (length === undefined) throw new Error(`an answer without Content-Length: ${text.slice(0, 200)}`)
      const end = headEnd + 4 + Number(length)
      if (text.length < end) return
      const answer = { status: Number(text.slice(9, 12)), body: text.slice(headEnd + 4, end) }
      text = text.slice(end)
      onAnswer(answer)
    }
  }
}
