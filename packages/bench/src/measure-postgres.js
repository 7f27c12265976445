import { projectId } from './contenders.js'
import { makeBatch } from './make-batch.js'
import { formatSize } from './measure-growth.js'
import { waitForRest } from './measure-mixed.js'
import { databaseOf, openContender, syncDisks } from './open-contender.js'
import { inTurn, usualLoad } from './plan.js'

/** @typedef {import('./contenders.js').Contender} Contender */
/** @typedef {import('./open-contender.js').Context} Context */

/**
 * @typedef {object} PostgresPlan
 * @property {'full' | 'quick' | 'smoke'} name
 * @property {number} rounds
 * @property {number} warmupSeconds
 * @property {number} seconds of each run
 * @property {readonly string[]} [only] contenders; all without
 * @property {number[]} sizes events that are stored before, for growth
 */

/**
 * What was written for each new event, in bytes. `walImageBytes` is the part of `walBytes` that are images of whole
 * pages, if the server can tell.
 *
 * @typedef {import('./send-load.js').LoadResult & {
 *   walBytes?: number, walImageBytes?: number, diskBytes?: number
 * }} PostgresRun
 */

/** By contender and load. @typedef {Record<string, Record<string, PostgresRun>>} PostgresRound */

/**
 * A database that was filled before it was measured: `diskBytes` an event right after it.
 *
 * @typedef {object} GrownDatabase
 * @property {string} contender
 * @property {number} size
 * @property {4 | 7} idVersion
 * @property {number} diskBytes
 * @property {PostgresRun[]} rounds
 */

/** @typedef {{ loads: PostgresRound[], growth: GrownDatabase[] }} PostgresResults */

/**
 * Those after the first two run on the database of the first one.
 *
 * @type {readonly {
 *   name: string, title: string, connections: number, count?: number, idVersion?: 7, again?: string
 * }[]}
 */
export const postgresLoads = [
  { name: 'v7', title: 'new, UUIDv7', connections: 16, idVersion: 7 },
  { name: 'new', title: 'new, random ids', connections: 16 },
  { name: 'again', title: 'the same batches again', connections: 16, again: 'new' },
  { name: 'connections-1', title: 'new, 1 connection', connections: 1 },
  { name: 'again-1', title: 'the same again, 1 connection', connections: 1, again: 'connections-1' },
  { name: 'connections-4', title: 'new, 4 connections', connections: 4 },
  { name: 'connections-64', title: 'new, 64 connections', connections: 64 },
  { name: 'single', title: 'new, 64 connections, 1 event a batch', connections: 64, count: 1 },
]

/**
 * All contenders of the context, on empty databases and then on filled ones. They take turns load by load.
 *
 * @param {Context} context
 * @param {PostgresPlan} plan
 * @returns {Promise<PostgresResults>} rejects at the first wrong response
 */
export async function measurePostgres(context, plan) {
  /** @type {PostgresResults} */
  const results = { loads: [], growth: [] }
  const { contenders } = context
  const compared = contenders.filter(({ options }) => options?.keyPartitions === undefined)
  for (let round = 0; round < plan.rounds; round++) {
    results.loads.push(await measureLoads(context, inTurn(compared, round), plan))
    context.log(`round ${round + 1}: loads`)
  }
  for (const [i, size] of plan.sizes.filter((each) => each > 0).entries()) {
    for (const idVersion of /** @type {const} */ ([4, 7])) {
      const grown = contenders.filter(({ hasDatabase, options }) => {
        return hasDatabase && (options === undefined || (i === 0 && (idVersion === 4 || !options.keyPartitions)))
      })
      results.growth.push(...(await measureGrown(context, grown, { ...plan, size, idVersion })))
    }
  }
  return results
}

/** @param {Context} context @param {readonly Contender[]} contenders @param {PostgresPlan} plan */
async function measureLoads(context, contenders, plan) {
  /** @type {PostgresRound} */
  const round = Object.fromEntries(contenders.map(({ name }) => [name, {}]))
  for (const group of [
    postgresLoads.filter(({ idVersion }) => idVersion === 7),
    postgresLoads.filter(({ idVersion }) => idVersion !== 7),
  ]) {
    const running = []
    try {
      for (const contender of contenders) {
        running.push({ contender, opened: await openContender(context, contender, { store: 'empty', isFresh: true }) })
      }
      for (const { name, again, connections, count, idVersion } of group) {
        for (const { contender, opened } of running) {
          const runs = /** @type {PostgresRound[string]} */ (round[contender.name])
          const first = again === undefined ? undefined : runs[again]
          const resent = first ? { seed: first.seed, resend: first.answered } : {}
          for (const other of running) await waitForRest(other.opened)
          runs[name] = await measureRun(context, contender, { opened, store: 'empty' }, plan, {
            connections,
            idVersion,
            ...(count && { count }),
            ...resent,
          })
        }
      }
    } finally {
      for (const { opened } of running) await opened.close()
    }
  }
  return round
}

/**
 * @param {Context} context
 * @param {readonly Contender[]} contenders
 * @param {PostgresPlan & { size: number, idVersion: 4 | 7 }} plan
 * @returns {Promise<GrownDatabase[]>}
 */
async function measureGrown(context, contenders, plan) {
  const { size, idVersion, rounds } = plan
  const event = JSON.parse(makeBatch(projectId, 1).body.toString()).events[0]
  const store = `grown_${size}`
  /** @type {GrownDatabase[]} */
  const grown = []
  for (const contender of contenders) {
    const opened = await openContender(context, contender, { store, isFresh: true, isKept: true })
    const before = await usageOf(context, contender, store)
    await opened.program.call('preload', { events: size, event, idVersion })
    const after = await usageOf(context, contender, store)
    await opened.close()
    const diskBytes = (after.diskBytes - before.diskBytes) / size
    grown.push({ contender: contender.name, size, idVersion, diskBytes, rounds: [] })
    context.log(`${contender.title}: filled with ${formatSize(size)} events`)
  }
  for (let round = 0; round < rounds; round++) {
    for (const contender of inTurn(contenders, round)) {
      const opened = await openContender(context, contender, { store, isKept: true })
      const run = await measureRun(context, contender, { opened, store }, plan, { connections: 16, idVersion })
      grown.find((each) => each.contender === contender.name)?.rounds.push(run)
      await opened.close()
    }
    context.log(`round ${round + 1}: ${formatSize(size)} events stored, UUIDv${idVersion}`)
  }
  for (const contender of contenders) await context.postgres?.call('drop', { name: databaseOf(contender, store) })
  return grown
}

/**
 * One load after a checkpoint: each page that it changes first is written to the WAL as a whole.
 *
 * @param {Context} context
 * @param {Contender} contender
 * @param {{ opened: import('./open-contender.js').Opened, store: string }} where
 * @param {PostgresPlan} plan
 * @param {Partial<import('./open-contender.js').Load>} load
 * @returns {Promise<PostgresRun>}
 */
async function measureRun(context, contender, { opened, store }, { seconds, warmupSeconds }, load) {
  await context.postgres?.call('settle')
  await syncDisks()
  const before = contender.hasDatabase ? await usageOf(context, contender, store) : undefined
  const run = await opened.send({ ...usualLoad, seconds, warmupSeconds, ...load })
  if (!before || !run.accepted) return run
  const wal = await context.postgres?.call('walSince', before)
  const after = await usageOf(context, contender, store)
  return {
    ...run,
    walBytes: wal.bytes / run.accepted,
    ...(wal.imageBytes !== null && { walImageBytes: wal.imageBytes / run.accepted }),
    diskBytes: (after.diskBytes - before.diskBytes) / run.accepted,
  }
}

/**
 * @param {Context} context @param {Contender} contender @param {string} store
 * @returns {Promise<{ lsn: string, diskBytes: number }>}
 */
function usageOf({ postgres }, contender, store) {
  return /** @type {import('./start-program.js').Program} */ (postgres).call('usage', {
    name: databaseOf(contender, store),
  })
}
