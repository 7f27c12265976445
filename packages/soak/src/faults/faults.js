import { recheck } from '../load/senders.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('../site/run.js').Random} Random
 */

const afterKill = { last: 30, older: 10, purpose: 'after a kill' }

/**
 * Kills, stops and drains servers, fills the disk and ends connections to the database, until the load ends. Resolves
 * after the last fault, when its servers run again.
 *
 * @param {Site} site
 * @param {import('@ingest/bench/start-program').Program | undefined} database ends connections to it
 */
export async function runFaults(site, database) {
  const { run, servers, disk } = site
  const random = run.random('faults')
  while (!run.stopping.aborted) {
    await run.pause(random.integer(500, 5000))
    if (run.stopping.aborted) return
    const kind = random.weighted([
      [/** @type {const} */ ('kill'), 5],
      ['drain', 2],
      ['killBoth', 1],
      ['stop', 2],
      ['fill', disk ? 2 : 0],
      ['terminate', database ? 5 : 0],
    ])
    run.count('faults', kind)
    const slot = random.pick(servers)
    if (kind === 'kill') await restart(site, [slot], { signal: 'SIGKILL', random })
    else if (kind === 'killBoth') await restart(site, servers, { signal: 'SIGKILL', random })
    else if (kind === 'drain') await restart(site, [slot], { signal: 'SIGTERM', random })
    else if (kind === 'stop') await stopForAWhile(site, slot, random)
    else if (kind === 'fill') await fillDisk(site, random)
    else if (database) await terminateBackends(site, database, random)
  }
}

/** @param {Site} site @param {readonly import('../site/servers.js').ServerSlot[]} slots @param {{ signal: 'SIGKILL' | 'SIGTERM', random: Random }} options */
async function restart(site, slots, { signal, random }) {
  await Promise.all(slots.map((slot) => slot.stop(signal)))
  // sent to the other server if it still runs
  await recheck(site, { random, ...afterKill })
  await Promise.all(slots.map((slot) => slot.start()))
  await recheck(site, { random, ...afterKill })
}

/** @param {Site} site @param {import('../site/servers.js').ServerSlot} slot @param {Random} random */
async function stopForAWhile({ run, servers }, slot, random) {
  const server = slot.current
  slot.signal('SIGSTOP')
  // after 5 seconds, the other server reports which process holds the lock that it waits for
  await run.pause(random.chance(0.1) ? random.integer(5500, 8000) : random.integer(50, 2000))
  if (servers.some(({ current }) => current === server)) slot.signal('SIGCONT')
}

/** @param {Site} site @param {import('@ingest/bench/start-program').Program} database @param {Random} random */
async function terminateBackends({ run }, database, random) {
  /** @type {number[]} */
  const backends = await database.call('backends')
  const pids = backends.filter(() => random.chance(0.3))
  for (const _ of pids) run.count('signals', 'pg_terminate_backend')
  await database.call('terminate', { pids })
}

/** @param {Site} site @param {Random} random */
async function fillDisk({ run, disk, ledger }, random) {
  const leftBytes = random.pick([0, 100_000, 4_000_000])
  ledger.note({ event: 'the disk is full', leftBytes })
  disk?.fill(leftBytes)
  await run.pause(random.integer(500, 4000))
  disk?.empty()
  ledger.note({ event: 'the disk has space' })
}
