import t from 'tap'
import { createAnswerReader } from '../src/answer-reader.js'

const one = 'HTTP/1.1 202 Accepted\r\nContent-Length: 7\r\n\r\n{"a":1}'
const two = 'HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length:2\r\n\r\nno'
const expected = [
  { status: 202, body: '{"a":1}' },
  { status: 503, body: 'no' },
]

t.test('answers are found in whatever pieces they come', async (t) => {
  for (const size of [1, 2, 5, 50, 1000]) {
    const answers: unknown[] = []
    const read = createAnswerReader((answer) => answers.push(answer))
    const bytes = Buffer.from(one + two)
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size))
    t.strictSame(answers, expected, `pieces of ${size}`)
  }
})

t.test('an answer that does not say how long it is, is an error', async (t) => {
  const read = createAnswerReader(() => {})
  t.throws(() => read(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')), /Content-Length/)
})
