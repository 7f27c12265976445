import { mock } from 'node:test'
import t from 'tap'
import { type ErrorCode, IngestError } from '../src/error.ts'
import { createIngest } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'

const minute = 60_000
const hour = 60 * minute

t.test('a store is swept after a minute and then every hour, also after a failure, until it is closed', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const now = 1e12
  const swept: unknown[] = []
  let code: ErrorCode = 'disk-full'
  async function sweep(before: { mapsTouched: number; activity: number }): Promise<void> {
    swept.push(before)
    throw new IngestError(code, 'Refused.')
  }
  const store = { ...openMemoryStore(), sweep }
  const errors: unknown[] = []
  createIngest({ store, now: () => now, activity: { keepMs: 2 * hour } }).observe({
    onError: (error) => errors.push((error as IngestError).code),
  })
  const sweepsAfter = async (ms: number) => {
    mock.timers.tick(ms)
    await new Promise(setImmediate)
    return swept.length
  }
  t.equal(await sweepsAfter(minute - 1), 0)
  t.equal(await sweepsAfter(1), 1)
  t.equal(await sweepsAfter(hour - 1), 1)
  t.equal(await sweepsAfter(1), 2)
  code = 'store-closed'
  t.equal(await sweepsAfter(hour), 3)
  t.equal(await sweepsAfter(10 * hour), 3)
  const before = { mapsTouched: now - 7 * 24 * hour, activity: now - 2 * hour }
  t.strictSame(swept, [before, before, before])
  t.strictSame(errors, ['disk-full', 'disk-full'], 'each failure is reported once')
})
