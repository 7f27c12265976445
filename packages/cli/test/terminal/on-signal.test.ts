import t from 'tap'
import { processIo } from '../../src/io.ts'
import { abortOnSignal, Interrupted } from '../../src/terminal/on-signal.ts'

const io = processIo()

for (const [signal, exitCode] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  t.test(`${signal} aborts the work with its advice`, async (t) => {
    const before = process.listenerCount(signal)
    const work = abortOnSignal(io, 'run it again', async (abort) => {
      process.kill(process.pid, signal)
      const alive = setInterval(() => {}, 1000)
      await new Promise((resolve) => abort.addEventListener('abort', resolve))
      clearInterval(alive)
      abort.throwIfAborted()
    })
    await t.rejects(work, new Interrupted(signal, 'run it again'))
    await t.rejects(work, { exitCode, message: `${signal}: run it again` })
    t.equal(process.listenerCount(signal), before)
  })
}

t.test('an interruption without advice has no message', async (t) => {
  t.match(new Interrupted('SIGINT', ''), { exitCode: 130, message: /^$/ })
})

t.test('without a signal, the result is that of the work', async (t) => {
  const before = process.listenerCount('SIGINT')
  t.equal(await abortOnSignal(io, '', async ({ aborted }) => aborted), false)
  await t.rejects(
    abortOnSignal(io, '', () => Promise.reject(new Error('its own'))),
    { message: 'its own' },
  )
  t.equal(process.listenerCount('SIGINT'), before)
})
