import { openContender } from '../contenders/open-contender.js'
import { contendersOfRound } from '../plan.js'
import { formatTable } from '../report/format.js'
import { figureCell, runsOf, speedCells, speedHead } from '../report/rounds.js'

/** Runs by contender. @typedef {Record<string, import('../load/send-load.js').LoadResult>} ThroughputRound */

/**
 * The usual load on each contender with an empty store, round by round.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<ThroughputRound[]>}
 */
export async function measureThroughput(context, { rounds, warmupSeconds, seconds }) {
  const results = []
  for (let round = 0; round < rounds; round++) {
    /** @type {ThroughputRound} */
    const runs = {}
    for (const contender of contendersOfRound(context.contenders, round)) {
      const opened = await openContender(context, contender, { store: 'empty', isFresh: true })
      const run = await opened.send({ seconds, warmupSeconds })
      runs[contender.name] = run
      await opened.close()
      const rate = Math.round(run.eventsPerSecond).toLocaleString('en')
      context.log(`round ${round + 1}: ${contender.title}: ${rate} events/s`)
    }
    results.push(runs)
  }
  return results
}

/** @param {readonly ThroughputRound[]} rounds @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders */
export function throughputSection(rounds, contenders) {
  const rows = contenders.flatMap(({ name, title, missing }) => {
    const runs = runsOf(rounds, (round) => round[name])
    if (runs.length === 0) {
      return missing === undefined ? [] : [[title, `not measured: ${missing}`, ...Array(7).fill('')]]
    }
    const cells = speedCells(
      rounds,
      (round) => round[name],
      (round) => round.floor,
    )
    return [[title, ...cells, figureCell(runs, ({ loadCpu }) => loadCpu)]]
  })
  return [
    'Batches of 100 new events with random ids, on 16 connections, into an empty store.',
    formatTable(['', ...speedHead(), 'cores used by the load'], rows),
    'p50 and p99 are latencies of batches. Processor time is the user and system time of the server’s process while it was measured. "By thread" has the median of each thread, in µs an event: threads of V8 collect garbage and compile, those of libuv wait for disks. `database` is all processes of NATS, or of PostgreSQL if this run started it.',
    'If the load used a whole core, the load was the limit, and the server could do more.',
  ].join('\n\n')
}
