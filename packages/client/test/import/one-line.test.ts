import t from 'tap'
import { oneLine } from '../../src/import/serialize-event.ts'

t.test('line breaks become spaces, in a copy', async (t) => {
  const text = Buffer.from('{\r\n\t"a" : "\\n"\n}')
  t.equal(oneLine(text).toString(), '{  \t"a" : "\\n" }')
  t.equal(text[1], 0x0d)
})
