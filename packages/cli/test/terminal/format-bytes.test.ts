import t from 'tap'
import { formatBytes } from '../../src/terminal/format.ts'

t.test('bytes for people', async (t) => {
  const cases: [number, string][] = [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [20_480, '20.5 kB'],
    [999_949, '999.9 kB'],
    [999_950, '1.0 MB'],
    [55_412_345, '55.4 MB'],
    [3e9, '3.0 GB'],
    [5e15, '5000.0 TB'],
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})
