import { openContender, syncDisks, waitForRest } from '../contenders/open-contender.js'
import { inTurn } from '../plan.js'
import { formatTable } from '../report/format.js'
import { figureCell, ratioCell, runsOf, speedCells, speedHead } from '../report/rounds.js'

/**
 * @typedef {import('../contenders/find-contenders.js').Contender} Contender
 * @typedef {import('../contenders/open-contender.js').Context} Context
 * @typedef {import('../contenders/open-contender.js').Opened} Opened
 * @typedef {import('../plan.js').Plan} Plan
 */

/**
 * A run with the bytes written per new event. `walImageBytes` is the part of `walBytes` that is full-page images, if the
 * server can tell.
 *
 * @typedef {import('../load/send-load.js').LoadResult & {
 *   walBytes?: number, walImageBytes?: number, diskBytes?: number
 * }} DatabaseRun
 */

/** Runs by contender and load. @typedef {Record<string, Record<string, DatabaseRun>>} DatabaseRound */

/**
 * The first load has a database of its own; the others share a second one.
 *
 * @type {readonly { name: string, title: string, load: import('../contenders/open-contender.js').Load, again?: string }[]}
 */
const loads = [
  { name: 'v7', title: 'new, UUIDv7', load: { idVersion: 7 } },
  { name: 'new', title: 'new, random ids', load: {} },
  { name: 'again', title: 'the same batches again', load: {}, again: 'new' },
]

/**
 * Measures Ingest and all contenders that store in PostgreSQL, on empty databases, in turn for each load. Undefined if no
 * contender stores in PostgreSQL.
 *
 * @param {Context} context
 * @param {Plan} plan
 * @returns {Promise<DatabaseRound[] | undefined>}
 */
export async function measureDatabases(context, plan) {
  const results = []
  const measured = context.contenders.filter(({ name, hasDatabase }) => hasDatabase || name === 'ours')
  if (!measured.some(({ hasDatabase }) => hasDatabase)) return undefined
  for (let round = 0; round < plan.rounds; round++) {
    const contenders = inTurn(measured, round)
    /** @type {DatabaseRound} */
    const runs = Object.fromEntries(contenders.map(({ name }) => [name, {}]))
    for (const group of [loads.slice(0, 1), loads.slice(1)])
      await measureGroup(context, { contenders, group, plan, runs })
    results.push(runs)
    context.log(`round ${round + 1}: loads`)
  }
  return results
}

/**
 * @param {Context} context
 * @param {{ contenders: readonly Contender[], group: typeof loads, plan: Plan, runs: DatabaseRound }} options
 */
async function measureGroup(context, { contenders, group, plan, runs }) {
  /** @type {Opened[]} */
  const running = []
  try {
    for (const contender of contenders) {
      running.push(await openContender(context, contender, { store: 'empty', isFresh: true }))
    }
    for (const { name, load, again } of group) {
      for (const opened of running) {
        const own = /** @type {DatabaseRound[string]} */ (runs[opened.contender.name])
        const first = again === undefined ? undefined : own[again]
        const resent = first && { seed: first.seed, resend: first.answered }
        for (const other of running) await waitForRest(other)
        own[name] = await measureRun(context, opened, plan, { ...load, ...resent })
      }
    }
  } finally {
    for (const opened of running) await opened.close()
  }
}

/**
 * Measures one load after a checkpoint, so that each run writes the same full-page images: PostgreSQL writes one to the WAL
 * for the first change of a page after a checkpoint.
 *
 * @param {Context} context
 * @param {Opened} opened
 * @param {Plan} plan
 * @param {import('../contenders/open-contender.js').Load} load
 * @returns {Promise<DatabaseRun>}
 */
async function measureRun({ postgres }, { contender, database, send }, { phaseSeconds: seconds, warmupSeconds }, load) {
  await postgres?.call('settle')
  await syncDisks()
  const usage = () => postgres?.call('usage', { name: database })
  const before = contender.hasDatabase && (await usage())
  const run = await send({ seconds, warmupSeconds, ...load })
  if (!before || !run.accepted) return run
  const wal = await postgres?.call('walSince', before)
  const after = await usage()
  return {
    ...run,
    walBytes: wal.bytes / run.accepted,
    ...(wal.imageBytes !== null && { walImageBytes: wal.imageBytes / run.accepted }),
    diskBytes: (after.diskBytes - before.diskBytes) / run.accepted,
  }
}

/** @type {Record<string, import('../report/rounds.js').Figure<DatabaseRun>>} */
const written = {
  'WAL, bytes an event': ({ walBytes }) => walBytes,
  'without page images': ({ walBytes, walImageBytes }) =>
    walBytes === undefined || walImageBytes === undefined ? undefined : walBytes - walImageBytes,
  'disk, bytes an event': ({ diskBytes }) => diskBytes,
}

/** @param {readonly DatabaseRound[]} rounds @param {readonly Contender[]} contenders */
export function databasesSection(rounds, contenders) {
  const head = Object.keys(written).flatMap((title) => [title, 'of Fastify + PostgreSQL'])
  const rows = loads.flatMap(({ name: load, title }) => {
    const base = (/** @type {DatabaseRound} */ round) => round.postgres?.[load]
    const loaded = contenders.filter(({ name }) => rounds.some((round) => round[name]?.[load]))
    return loaded.map(({ name, title: contender }) => {
      const pick = (/** @type {DatabaseRound} */ round) => round[name]?.[load]
      const cells = Object.values(written).flatMap((figure) => [
        figureCell(runsOf(rounds, pick), figure),
        ratioCell(rounds, pick, base, figure),
      ])
      return [title, contender, ...speedCells(rounds, pick, base), ...cells]
    })
  })
  return [
    'One PostgreSQL server with default durability, an empty database for each contender; batches of 100 events on 16 connections. Processor time is that of the Node process and of all processes of PostgreSQL, autovacuum included.',
    formatTable(['load', '', ...speedHead('of Fastify + PostgreSQL'), ...head], rows),
    '**WAL** is counted from a checkpoint before each run. A page’s first change after a checkpoint writes its image, so images weigh more in such short runs than in production; the other records do not depend on that. **Disk** is the growth of the database without VACUUM.',
  ].join('\n\n')
}
