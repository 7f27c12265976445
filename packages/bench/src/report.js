import { formatNumber, formatSummary, formatTable } from './format.js'
import { totalOf } from './processor-time.js'
import { processorTime } from './ratios.js'
import { formatFigure, formatThreads } from './report-cells.js'
import { growthSection, mixedTable, throughputTable } from './report-loads.js'
import { summarize } from './statistics.js'

/** @typedef {import('./run-benchmark.js').Measured} Measured */

/**
 * The report of a run, in Markdown.
 *
 * @param {Measured} record
 * @param {{ plot: string, raw: string }} files beside it
 */
export function makeReport(record, { plot, raw }) {
  const { measuredAt, command, plan, machine, versions, results } = record
  return [
    '# Benchmark',
    `Measured on ${measuredAt.slice(0, 10)} by \`${command}\`. Figures are medians of ${plan.rounds} interleaved rounds, with the lowest and the highest behind them. [Every round](${raw}) is kept.`,
    quickNote(plan),
    `![Events a second, and how they change as the store grows](${plot})`,
    section('Machine', factsTable([...machine, ...versions])),
    section('Throughput', results.throughput && throughputTable(record)),
    section('Other loads', results.mixed && mixedTable(record)),
    section('Growth', results.growth && growthSection(record)),
    section('Latency', results.latency && latencySection(results.latency)),
    section('Recovery', results.recovery && recoverySection(results.recovery)),
    section('Maps', results.uploads && uploadsSection(results.uploads)),
    section('Sending a file', results.send && sendSection(results.send)),
    section('How it is measured', method),
    section('What this does not prove', limits),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
    .concat('\n')
}

/** @param {import('./plan.js').Plan} plan */
function quickNote({ name }) {
  if (name === 'full') return ''
  return '**This was a quick look**: short runs, few rounds and small stores. It shows that everything works; for figures to rely on, run all of it.'
}

/** @param {string} title @param {string | undefined} text */
function section(title, text) {
  return text === undefined ? '' : `## ${title}\n\n${text}`
}

/** @param {import('./machine.js').Fact[]} facts */
function factsTable(facts) {
  return formatTable(
    ['', ''],
    facts.map(({ label, value }) => [label, value]),
  )
}

/** @param {import('./measure-latency.js').Latency} latency */
function latencySection({ eventsPerSecondMax, rounds, indexed, idsBytesBefore, idsBytesAfter }) {
  const all = (/** @type {'p50Ms' | 'p90Ms' | 'p99Ms' | 'maxMs'} */ key) =>
    formatSummary(summarize(rounds.map((round) => round[key])))
  return [
    `Batches became due evenly, at half of the ${formatNumber(eventsPerSecondMax)} events a second that the same store took just before, and were sent then, whether or not earlier ones had been answered. ${formatNumber(indexed)} ids were added meanwhile: each 262,144 bring about a flush, and eight flushes a merge. On disk, \`ids\` went from ${formatNumber(idsBytesBefore / 1e6)} to ${formatNumber(idsBytesAfter / 1e6)} MB.`,
    formatTable(
      ['p50 ms', 'p90 ms', 'p99 ms', 'longest, ms', 'processor time, µs an event', 'by thread'],
      [
        [
          all('p50Ms'),
          all('p90Ms'),
          all('p99Ms'),
          all('maxMs'),
          formatFigure(rounds, processorTime),
          formatThreads(rounds.map(({ processor }) => processor)),
        ],
      ],
    ),
  ].join('\n\n')
}

/** @param {import('./measure-recovery.js').Recovery} recovery */
function recoverySection({ opens, rebuilds, notRebuilt }) {
  const rowOf =
    (/** @type {string} */ what) =>
    (/** @type {import('./measure-recovery.js').RecoveryOpen} */ { events, openMs, processor }) => [
      what,
      events.toLocaleString('en'),
      formatNumber(openMs),
      formatNumber((events / openMs) * 1000),
      formatNumber(totalOf(processor) ?? Number.NaN),
      formatThreads([processor]),
    ]
  const rows = [...opens.map(rowOf('kill -9 under load')), ...rebuilds.map(rowOf('`ids` deleted'))]
  return [
    formatTable(['before', 'events', 'open, ms', 'events/s', 'processor time, µs an event', 'by thread'], rows),
    ...(notRebuilt === undefined ? [] : [`The index was not rebuilt: ${notRebuilt}.`]),
  ].join('\n\n')
}

/** @param {import('./measure-send.js').SendRound[]} rounds */
function sendSection(rounds) {
  const all = (/** @type {'command' | 'loop'} */ key) => formatSummary(summarize(rounds.map((round) => round[key])))
  return [
    'Processor time of the process that sends. `ingest send` reads and checks a file of new events, one a line, and the start of its process counts; the load posts bodies that are ready.',
    formatTable(
      ['', 'µs an event'],
      [
        ['`ingest send`', all('command')],
        ['the load', all('loop')],
      ],
    ),
  ].join('\n\n')
}

/** @param {import('./measure-uploads.js').Uploads} uploads */
function uploadsSection({ published, rounds }) {
  const megabytesPerSecond = (/** @type {'newMs' | 'againMs'} */ key) =>
    formatSummary(summarize(published.map((each) => each.bytes / 1e3 / each[key])))
  const all = (/** @type {'without' | 'during'} */ key) => [
    formatSummary(summarize(rounds.map((round) => round[key].p50Ms))),
    formatSummary(summarize(rounds.map((round) => round[key].p99Ms))),
    formatFigure(
      rounds.map((round) => round[key]),
      processorTime,
    ),
    formatThreads(rounds.map((round) => round[key].processor)),
  ]
  const uploaded = formatSummary(summarize(rounds.map((round) => round.uploadedBytes / 1e6 / round.seconds)))
  return [
    `A map of 55 MB is published at ${megabytesPerSecond('newMs')} MB/s when all of it is new, and the same again at ${megabytesPerSecond('againMs')} MB/s, hashing and cutting included, over loopback, after one that is not counted.`,
    `Events come evenly, at half of the rate that the same store took just before; meanwhile one new map of 8 MB after another is published, ${uploaded} MB/s of them.`,
    formatTable(
      ['answers to events', 'p50 ms', 'p99 ms', 'processor time, µs an event', 'by thread'],
      [
        ['without uploads', ...all('without')],
        ['while maps are uploaded', ...all('during')],
      ],
    ),
  ].join('\n\n')
}

const method = `Load comes from a process of its own, over raw sockets with keep-alive. A connection sends its next batch when the last one is answered, and has it ready by then: nothing is made while the server waits. Every event is new unless the table says otherwise: 128 random bits seed each run, and the ids are random UUIDs. Events have about 370 bytes. Every answer is checked: it must be 202, with exactly as many accepted and as many duplicates as there were; one wrong answer, and the run has no figure.

Each server is a process of its own on an empty store of its own, started for each run. Contenders take turns, so that what the machine does in a round falls on all of them, and ratios are taken within a round. Under other loads all servers of a round run at the same time, but only one is loaded, once the others do nothing in the background. Disks are synced before a server takes load, so that no contender pays for the writes of another.

- **The floor** reads and parses the body and keeps nothing. **The synced floor** also appends it to a file, one \`fdatasync\` for all that has gathered.
- **PostgreSQL** takes one \`INSERT … SELECT unnest … ON CONFLICT DO NOTHING\` a batch, prepared, on 8 connections, with its durability as it comes, and more memory and fewer checkpoints than by default.
- **The LMDB B-tree** has the key (project, event id) and the event as JSON, with the defaults of \`lmdb\`.
- **SQLite** has WAL and \`synchronous=FULL\`; queued batches share a transaction.
- The peers check no keys and no events, and keep no order: they do less than Ingest.`

const limits = `- Nothing about another machine. Two cores are shared by server, load and kernel; with more, each contender would gain differently, PostgreSQL more than what runs in one process.
- Nothing about absolute speed: these machines change from minute to minute. Only ratios within a run mean something.
- Nothing about power loss: syncs are trusted to the file system and the disk, and virtual disks may acknowledge a sync early. A slower sync costs every contender in proportion to its syncs.
- Nothing about networks, TLS or proxies: the load is on the same machine.
- Nothing about cold caches: stores had just been written, so they were in memory as far as it goes.
- Nothing about reading, and nothing about what PostgreSQL can do besides: queries, indexes, replicas.
- Ids are random UUIDs. Ids that ascend with time would make B-trees look better, and change little for Ingest.`
