import t from 'tap'
import { runParallel } from '../../src/upload/upload-map.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('every item is worked on once, in order, and never more than so many at once', async (t) => {
  for (const concurrency of [1, 3, 50]) {
    const begun: number[] = []
    let running = 0
    let most = 0
    await runParallel([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], concurrency, async (item) => {
      begun.push(item)
      most = Math.max(most, ++running)
      await turn()
      running--
    })
    t.strictSame(begun, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    t.equal(most, Math.min(concurrency, 10))
  }
})

t.test('the first failure stops the rest, and is thrown when all that had begun is over', async (t) => {
  const begun: number[] = []
  let over = 0
  const run = runParallel([0, 1, 2, 3, 4], 2, async (item, signal) => {
    begun.push(item)
    if (item === 1) throw new Error('first')
    while (!signal.aborted) await turn()
    over++
    throw new Error('second')
  })
  await t.rejects(run, { message: 'first' })
  t.strictSame([begun, over], [[0, 1], 1])
})

t.test('a signal stops it with its reason', async (t) => {
  const controller = new AbortController()
  const reason = new Error('no longer wanted')
  const done: number[] = []
  const run = runParallel(
    [0, 1, 2],
    1,
    async (item) => {
      done.push(item)
      controller.abort(reason)
    },
    controller.signal,
  )
  await t.rejects(run, reason)
  t.strictSame(done, [0])
})

t.test('nothing to do is done', () => runParallel([], 4, async () => void t.fail()))

t.test('much at once is no leak of listeners', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  await runParallel(Array(32).keys(), 16, async (_, signal) => {
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve)
      setTimeout(resolve)
    })
  })
  t.strictSame(warnings, [])
})
