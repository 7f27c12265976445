import t from 'tap'
import { backoffMsBase, backoffMsMax, createBackoff } from '../../src/http/retry.ts'

const ranges = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]

t.test('a pause is anything from nothing to a bound that doubles from 1 s to 60 s', async (t) => {
  t.strictSame([backoffMsBase, backoffMsMax], [1000, 60_000])
  for (const share of [0, 0.25, 0.999]) {
    const backoff = createBackoff({ random: () => share })
    t.strictSame(
      ranges.map(() => backoff.next()),
      ranges.map((range) => share * range),
    )
  }
})

t.test('what the server asks for comes first, whatever chance says', async (t) => {
  const soon = createBackoff({ random: () => 0 })
  const late = createBackoff({ random: () => 0.999 })
  t.equal(soon.next(7000), 7000)
  t.equal(late.next(7000), 7999)
  t.equal(soon.next(120_000), 120_000, 'more than a pause of its own may be')
})

t.test('after a success it begins again', async (t) => {
  const backoff = createBackoff({ random: () => 1 })
  backoff.next()
  backoff.next()
  backoff.reset()
  t.equal(backoff.next(), 1000)
})

t.test('without a source of chance it takes a real one', async (t) => {
  const pauses = Array.from({ length: 20 }, () => createBackoff().next())
  t.ok(pauses.every((pause) => pause >= 0 && pause < 1000))
  t.ok(new Set(pauses).size > 1)
})
