import { alteredVariant, sendBatch } from './send-batch.js'
import { pickServer } from './site.js'

/**
 * @typedef {import('./site.js').Site} Site
 * @typedef {import('./random.js').Random} Random
 */

const everyMs = 500
const batchesMax = 500
const concurrency = 8

/**
 * Sends each acknowledged batch again, soon and to every server, because one that stored it may know its ids from memory:
 * all are duplicates.
 *
 * @param {Site} site
 */
export async function runRechecks(site) {
  await Promise.all(site.servers.map((slot) => runRechecksOf(site, slot)))
}

/** @param {Site} site @param {import('./servers.js').ServerSlot} slot */
async function runRechecksOf(site, slot) {
  const { run, ledger } = site
  const { acknowledged } = ledger
  const random = run.random(`recheck ${slot.name}`)
  let next = 0
  while (!run.stopping.aborted) {
    await run.pause(everyMs)
    const server = slot.current
    if (!server || server.isEnding) continue
    const batches = acknowledged.slice(Math.max(next, acknowledged.length - batchesMax))
    if (acknowledged.length > 0) batches.push(random.pick(acknowledged))
    next = acknowledged.length
    const sendNext = async () => {
      for (let batch = batches.pop(); batch && !run.stopping.aborted && !server.isEnding; batch = batches.pop()) {
        await sendBatch(site, batch, { server, random, purpose: 'recheck', ...alteredOrNot(random) })
      }
    }
    await Promise.all(Array.from({ length: concurrency }, sendNext))
  }
}

/**
 * Sends the last acknowledged batches again, and some older ones, to any server.
 *
 * @param {Site} site
 * @param {{ random: Random, last: number, older: number, purpose: string }} options how many batches of each kind
 */
export async function recheck(site, { random, last, older, purpose }) {
  const { acknowledged } = site.ledger
  const batches = acknowledged.slice(-last)
  for (let i = 0; i < older && acknowledged.length > 0; i++) batches.push(random.pick(acknowledged))
  await Promise.all(
    batches.map((batch) => {
      const server = pickServer(site, random)
      return server && sendBatch(site, batch, { server, random, purpose, ...alteredOrNot(random) })
    }),
  )
}

/** @param {Random} random */
function alteredOrNot(random) {
  return random.chance(0.2) ? { variant: alteredVariant } : {}
}
