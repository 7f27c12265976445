import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'

/**
 * @typedef {object} RecoveryOpen
 * @property {number} events
 * @property {number} openMs
 * @property {import('./processor-time.js').ProcessorTime | undefined} [processor] of the whole start, in microseconds an
 *   event
 *
 * @typedef {object} Recovery
 * @property {RecoveryOpen[]} opens after `kill -9` under load
 * @property {RecoveryOpen[]} rebuilds after `ids` was deleted
 * @property {string} [notRebuilt] why there are none
 */

/**
 * How long it takes to open a store after its process was killed under load, and when its id index is gone.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @param {string} store
 * @returns {Promise<Recovery>}
 */
export async function measureRecovery(context, { rounds, seconds }, store) {
  const [ours] = context.contenders.filter(({ name }) => name === 'ours')
  if (!ours) throw new Error('recovery is measured of ours')
  /** @type {Recovery} */
  const recovery = { opens: [], rebuilds: [] }
  for (let round = 0; round < rounds; round++) {
    const killed = await openContender(context, ours, { store, isKept: true })
    const load = killed.send({ ...usualLoad, seconds: seconds * 10 }).catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, seconds * 500))
    await killed.kill()
    await load
    recovery.opens.push(await open('opened after kill -9'))
  }
  const ids = join(context.directory, `${ours.name}-${store}`, 'ids')
  if (!existsSync(ids)) return { ...recovery, notRebuilt: 'this version keeps no data/ids' }
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    await rm(ids, { recursive: true })
    recovery.rebuilds.push(await open('opened without ids'))
  }
  return recovery

  /** @param {string} what */
  async function open(what) {
    const opened = await openContender(context, /** @type {NonNullable<typeof ours>} */ (ours), { store, isKept: true })
    const { events, openMs } = opened.program.started
    const processor = opened.program.startTime(events)
    await opened.close()
    context.log(`${what}: ${events.toLocaleString('en')} events in ${openMs.toFixed(0)} ms`)
    return { events, openMs, processor }
  }
}
