import t, { type Test } from 'tap'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { type ClockQuestion, findClockDoubt } from '../../src/events/clock-doubt.ts'
import { createEventLog, openEventLogTables } from '../../src/log/event-log.ts'
import { openWriterBed, recordAt } from '../writer-bed.ts'

const day = 86_400_000
const hour = day / 24
const start = Date.parse('2026-01-01T00:00:00Z')
/** The time of a clock that lost its battery. */
const wrong = Date.parse('2099-01-01T00:00:00Z')

async function openLog(t: Test) {
  const { environment } = await openWriterBed(t.testdir())
  t.teardown(() => environment.close())
  const tables = openEventLogTables(environment.table)
  let last = 0
  const slices = {
    readSnapshot<T>(read: () => T): T {
      environment.root.resetReadTxn()
      return read()
    },
    nextStep: async () => {},
  }
  return {
    /** Stores a record at each of these times. */
    store(...times: number[]) {
      environment.write(() => {
        for (const time of times) tables.log.put(sequenceKey(++last), recordAt(last, [`e-${last}`], time))
      })
    },
    ask: (question: Partial<ClockQuestion> & { now: number }) =>
      findClockDoubt(createEventLog(tables), slices, { since: question.now - 30 * day, upMs: hour, ...question }),
  }
}

const daily = (from: number, days: number) => Array.from({ length: days }, (_, i) => from + i * day)

t.test('time in which events were received has passed', async (t) => {
  const { store, ask } = await openLog(t)
  t.equal(await ask({ now: wrong }), undefined, 'an empty log has nothing to erase')
  store(...daily(start, 60))
  t.equal(await ask({ now: start + 60 * day }), undefined)
  t.equal(await ask({ now: start + 66 * day }), undefined, 'a store may be idle for a week')
  t.equal(await ask({ now: start + 60 * day, since: 0 }), undefined, 'no event is so old')
  store(start + 66 * day)
  t.equal(await ask({ now: start + 67 * day }), undefined)
})

t.test('time in which nothing was received may not have passed', async (t) => {
  const { store, ask } = await openLog(t)
  store(...daily(start, 60))
  const doubt = { mayBeAhead: true, message: /the time from 2026-03-01T00:00:00.000Z to 2098-12-31T23/ }
  t.match(await ask({ now: wrong }), doubt)
  t.match(await ask({ now: wrong, since: wrong }), doubt, 'also before anything is erased')
  t.match(await ask({ now: start + 68 * day }), { mayBeAhead: true })
  t.equal(await ask({ now: start + 68 * day, since: start + 68 * day }), undefined)
})

t.test('events that were stored by a wrong clock do not confirm it, until as much time has passed', async (t) => {
  const { store, ask } = await openLog(t)
  store(...daily(start, 60))
  for (let boot = 0; boot < 3; boot++) {
    store(wrong + boot * hour)
    t.match(await ask({ now: wrong + boot * hour }), { mayBeAhead: true })
  }
  store(...daily(wrong + day, 22))
  t.match(await ask({ now: wrong + 22 * day }), { mayBeAhead: true }, 'the jump is in the last 30 days')
  store(...daily(wrong + 23 * day, 7))
  t.equal(await ask({ now: wrong + 30 * day }), undefined, 'what is erased now is 30 days old by any clock')
  t.match(await ask({ now: wrong + 30 * day, since: wrong - 30 * day }), { mayBeAhead: true })
})

t.test('time in which the process has run has passed', async (t) => {
  const { store, ask } = await openLog(t)
  store(start)
  const now = start + 800 * day
  t.match(await ask({ now }), { mayBeAhead: true })
  t.match(await ask({ now, upMs: 20 * day }), { mayBeAhead: true })
  t.equal(await ask({ now, upMs: 795 * day }), undefined)
})

t.test('times in the future are found, and do not make events old', async (t) => {
  const { store, ask } = await openLog(t)
  store(...daily(start, 60), wrong)
  const doubt = { mayBeAhead: false, message: /received at 2099-01-01.*in the future.*`ingest copy --latest`/ }
  t.match(await ask({ now: start + 60 * day }), doubt)
  t.match(await ask({ now: start + 90 * day }), doubt)
  t.equal(await ask({ now: wrong - 1000, since: wrong }), undefined, 'clocks are corrected by seconds')
})
