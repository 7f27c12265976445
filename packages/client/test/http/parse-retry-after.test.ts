import t from 'tap'
import { parseRetryAfter } from '../../src/http/error-from-response.ts'

const now = Date.parse('2026-11-20T17:51:00.250Z')

const values: [string | undefined, number | undefined][] = [
  ['0', 0],
  ['1', 1],
  ['120', 120],
  ['Fri, 20 Nov 2026 17:51:10 GMT', 10],
  ['Fri, 20 Nov 2026 17:50:00 GMT', 0],
  [undefined, undefined],
  ['', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['soon', undefined],
  ['2026-11-20', undefined],
  ['99999999999', undefined],
  ['Fri, 99 Nov 2026 17:51:10 GMT', undefined],
]

for (const [value, seconds] of values) {
  t.test(`${value} is ${seconds} s`, async (t) => {
    t.equal(parseRetryAfter(value, now), seconds)
  })
}
