import t from 'tap'
import { formatTable } from '../../src/terminal/format.ts'

const lines = [
  ['A', 'NUMBER', 'LAST'],
  ['long', '7', ''],
  ['', '12,345,678', 'x'],
]

t.test('columns are as wide as their widest cell, and no line ends with spaces', async (t) => {
  t.strictSame(formatTable(lines), ['A     NUMBER      LAST', 'long  7', '      12,345,678  x'])
})

t.test('numbers end together', async (t) => {
  t.strictSame(formatTable(lines, [1]), ['A         NUMBER  LAST', 'long           7', '      12,345,678  x'])
})

t.test('a table may be empty', async (t) => {
  t.strictSame(formatTable([]), [])
})

t.test('what a cell says to a terminal is shown, and counts for its width', async (t) => {
  t.strictSame(
    formatTable([
      ['\u009b2J', 'x'],
      ['longer than it', 'y'],
    ]),
    ['\\u009b2J        x', 'longer than it  y'],
  )
})
