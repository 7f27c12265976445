import { formatSummary, formatTable } from './format.js'
import { formatSize } from './measure-growth.js'
import { postgresLoads } from './measure-postgres.js'
import { processorTime, rate } from './ratios.js'
import { formatFigure, formatThreads, latencyCells } from './report-cells.js'
import { summarizeRatios } from './statistics.js'

/** @typedef {import('./measure-postgres.js').PostgresRun} PostgresRun */
/** @typedef {(run: PostgresRun) => number | undefined} Figure */

/**
 * @typedef {object} MeasuredPostgres
 * @property {string} measuredAt
 * @property {string} command
 * @property {import('./measure-postgres.js').PostgresPlan} plan
 * @property {import('./machine.js').Fact[]} machine
 * @property {import('./machine.js').Fact[]} versions
 * @property {import('./contenders.js').Contender[]} contenders
 * @property {import('./measure-postgres.js').PostgresResults} results
 */

/** @type {Figure} */
const walBytes = (run) => run.walBytes
/** @type {Figure} */
const walRecordBytes = (run) =>
  run.walBytes === undefined || run.walImageBytes === undefined ? undefined : run.walBytes - run.walImageBytes
/** @type {Figure} */
const diskBytes = (run) => run.diskBytes

/** @param {MeasuredPostgres} record @param {{ raw: string }} files */
export function makePostgresReport(record, { raw }) {
  const { measuredAt, command, plan, machine, versions } = record
  const facts = [...machine, ...versions].map(({ label, value }) => [label, value])
  return `# Ingest on PostgreSQL

Measured on ${measuredAt.slice(0, 10)} by \`${command}\`. Medians of ${plan.rounds} interleaved rounds, lowest and highest in parentheses; ratios are taken within a round. [Every round](${raw}) is kept.

## Loads

Batches of 100 events of 370 bytes, databases empty before.

${loadsTable(record)}

${growthSection(record)}## Machine

${formatTable(['', ''], facts)}

## How it is measured

As [the other benchmark](latest.md#how-it-is-measured). All use one PostgreSQL server with default durability, each in a database of its own.

- **Fastify + PostgreSQL** runs one prepared \`INSERT … SELECT unnest … ON CONFLICT DO NOTHING\` a batch into a table of (project, text id, time, jsonb). **With uuid and text** it accepts only UUIDs and cannot query events: the least that such a table takes.
- **Processor time** is that of the Node process and of all processes of PostgreSQL, autovacuum included.
- **WAL** is counted from a checkpoint before each run. A page's first change after a checkpoint writes its image, so images weigh more in such short runs than in production; the other records do not depend on that.
- **Disk** is the growth of the database without VACUUM; for filled databases, all that filling it took.
- To fill: Ingest through its store in process; the tables by \`INSERT … SELECT\`, indexed afterwards with the free space that such ids leave (30 % random, 10 % UUIDv7).
`
}

/** @param {MeasuredPostgres} record */
function loadsTable({ contenders, results: { loads } }) {
  const rows = postgresLoads.flatMap(({ name: load, title }) => {
    const raw = loads.map((round) => round.postgres?.[load])
    return contenders.flatMap(({ name, title: contender }) => {
      const runs = loads.map((round) => round[name]?.[load])
      return runs.every((run) => !run) ? [] : [[title, contender, ...cells(runs, raw)]]
    })
  })
  return formatTable(['load', '', ...head], rows)
}

/** @param {MeasuredPostgres} record */
function growthSection({ contenders, results: { growth } }) {
  if (growth.length === 0) return ''
  const rows = growth.map(({ contender, size, idVersion, diskBytes, rounds }) => {
    const raw = growth.find(
      (each) => each.contender === 'postgres' && each.size === size && each.idVersion === idVersion,
    )
    const title = contenders.find(({ name }) => name === contender)?.title ?? contender
    const ids = idVersion === 4 ? 'random' : 'UUIDv7'
    // what the rounds add is little, and pages have free space for it
    return [
      formatSize(size),
      ids,
      title,
      ...cells(
        rounds.map((run) => ({ ...run, diskBytes })),
        raw?.rounds.map((run) => ({ ...run, diskBytes: raw.diskBytes })) ?? [],
      ),
    ]
  })
  return `## Growth

New events on 16 connections, into databases that were filled before.

${formatTable(['stored before', 'ids', '', ...head], rows)}

`
}

const head = [
  'events/s',
  'of Fastify + PostgreSQL',
  'processor time, µs an event',
  'of it',
  'by process',
  'WAL, bytes an event',
  'of it',
  'without page images',
  'of it',
  'disk, bytes an event',
  'of it',
  'p50 ms',
  'p99 ms',
]

/** @param {readonly (PostgresRun | undefined)[]} runs @param {readonly (PostgresRun | undefined)[]} raw of the same rounds */
function cells(runs, raw) {
  const all = runs.flatMap((run) => run ?? [])
  const pair = (/** @type {Figure} */ figure) => [formatFigure(all, figure), orDash(ratio(runs, raw, figure))]
  return [
    ...pair(rate),
    ...pair(processorTime),
    formatThreads(all.map(({ processor }) => processor)),
    ...pair(walBytes),
    ...pair(walRecordBytes),
    ...pair(diskBytes),
    ...latencyCells(all),
  ]
}

/** @param {import('./statistics.js').Summary | undefined} summary */
function orDash(summary) {
  return summary ? formatSummary(summary) : '–'
}

/**
 * @param {readonly (PostgresRun | undefined)[]} runs @param {readonly (PostgresRun | undefined)[]} others of the same rounds
 * @param {Figure} figure
 */
function ratio(runs, others, figure) {
  const pairs = runs.flatMap((run, i) => {
    const [value, other] = [run, others[i]].map((each) => each && figure(each))
    return value === undefined || other === undefined ? [] : [{ value, other }]
  })
  if (pairs.length === 0) return undefined
  return summarizeRatios(
    pairs.map(({ value }) => value),
    pairs.map(({ other }) => other),
  )
}
