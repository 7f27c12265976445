import t from 'tap'
import { toEventsProgress } from '../../src/terminal/progress.ts'

t.test('it says how much of a file is read, and what of it was rejected', async (t) => {
  const tally = { bytes: 1500, events: 12, rejected: 0 }
  t.strictSame(toEventsProgress('sending', tally, 3000), {
    label: 'sending',
    done: 1500,
    total: 3000,
    text: '1.5 kB of 3.0 kB, 12 events',
    isAnnounced: false,
  })
  t.match(toEventsProgress('sending', { ...tally, rejected: 2 }, null), {
    total: null,
    text: '1.5 kB, 12 events, 2 rejected',
  })
})
