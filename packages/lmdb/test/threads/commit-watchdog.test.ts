import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createCommitState } from '../../src/threads/commit-state.ts'
import { createCommitWatchdog } from '../../src/threads/commit-watchdog.ts'

t.test('the time for which the process was stopped is not that of a commit', async (t) => {
  const timeoutMs = 500
  let timedOutAt: number | undefined
  const watchdog = createCommitWatchdog({
    state: createCommitState(),
    lockHolder: () => undefined,
    timeoutMs,
    onLocked: () => {},
    onTimeout: () => {
      timedOutAt = performance.now()
    },
  })
  watchdog.start()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000)
  const continuedAt = performance.now()
  while (timedOutAt === undefined) await sleep(10)
  t.ok(timedOutAt - continuedAt >= timeoutMs, 'a commit that does not end then has failed')
  watchdog.stop()
})
