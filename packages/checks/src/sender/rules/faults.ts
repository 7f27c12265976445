import { setTimeout as sleep } from 'node:timers/promises'
import { totalOf } from '../counts.ts'
import { createRandom, faultNames, faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import { makeEvents, type Rule } from './rule.ts'

const eventsMax = 400

/** Rules for random faults, one for each seed. */
export const faultRules: readonly Rule[] = [1, 2, 3].map((seed) => ({
  id: `faults-${seed}`,
  rule: 'Limit the queue, not the attempts, and count what it drops.',
  expected: 'events stored once, in order, but for those that are counted as dropped, under random faults',
  settings: { timeScale: 0.0002, timeoutMs: 300, flushMs: 10 },
  play: (play: Play) => playFaults(play, createRandom(seed)),
}))

async function playFaults(play: Play, random: () => number): Promise<void> {
  const below = (count: number) => Math.floor(random() * count)
  play.serve((exchange) => {
    const name = random() < 0.5 ? faultNames[below(faultNames.length)] : undefined
    // the sender may have closed the connection
    return (name ? exchange.inject(faults[name]) : exchange.accept()).catch(() => {})
  })
  let sent = 0
  while (sent < eventsMax) {
    const events = makeEvents(1 + below(60), sent)
    sent += events.length
    if (below(3) === 0) play.flush(events)
    else play.send(events)
    await sleep(below(50))
  }
  const { dropped } = await play.end()
  const stored = (await play.stored()).map(({ n }) => Number(n))
  const lost = sent - stored.length - totalOf(dropped)
  if (lost > 0) throw new BrokenRule(`${lost} events lost, of ${sent} with ${JSON.stringify(dropped)} dropped`)
  const wrong = stored.findIndex((n, i) => i > 0 && n <= (stored[i - 1] as number))
  if (wrong !== -1) throw new BrokenRule(`event ${stored[wrong]} was stored after event ${stored[wrong - 1]}`)
}
