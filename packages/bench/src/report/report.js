import { databasesSection } from '../parts/databases.js'
import { growthSection } from '../parts/growth.js'
import { latencySection } from '../parts/latency.js'
import { batchesSection, repeatsSection, standbySection } from '../parts/loads.js'
import { sendSection } from '../parts/send.js'
import { throughputSection } from '../parts/throughput.js'
import { uploadsSection } from '../parts/uploads.js'
import { isComplete } from '../plan.js'
import { formatTable } from './format.js'

/**
 * @typedef {object} Results
 * @property {import('../parts/throughput.js').ThroughputRound[]} [throughput]
 * @property {import('../parts/loads.js').LoadsRound[]} [batches]
 * @property {import('../parts/loads.js').LoadsRound[]} [repeats]
 * @property {import('../parts/growth.js').Growth} [growth]
 * @property {import('../parts/latency.js').Latency} [latency]
 * @property {import('../parts/uploads.js').Uploads} [uploads]
 * @property {import('../parts/send.js').SendRound[] | undefined} [send]
 * @property {import('../parts/databases.js').DatabaseRound[] | undefined} [databases]
 * @property {import('../parts/loads.js').LoadsRound[] | undefined} [standby]
 */

/**
 * A run of the benchmark.
 *
 * @typedef {object} Measured
 * @property {string} measuredAt ISO 8601
 * @property {string} command
 * @property {import('../plan.js').Plan} plan
 * @property {import('./machine.js').Fact[]} machine
 * @property {import('./machine.js').Fact[]} versions
 * @property {import('../contenders/find-contenders.js').Contender[]} contenders
 * @property {Results} results
 */

/** The report in Markdown, which links to the plot `benchmark.svg`. @param {Measured} record */
export function makeReport({ measuredAt, command, plan, machine, versions, contenders, results }) {
  const { throughput, batches, repeats, growth, latency, uploads, send, databases, standby } = results
  const facts = [...machine, ...versions].map(({ label, value }) => [label, value])
  return [
    '# Benchmark',
    `Measured on ${measuredAt.slice(0, 10)} by \`${command}\`. Figures are medians of interleaved rounds (${plan.rounds} for throughput and batch sizes, ${plan.fewerRounds} for the rest), with the lowest and the highest in parentheses. A column titled "of …" has the ratio of the column before it to the same figure of that contender. Ratios are taken within a round. **The floor** is a Node server that only parses the bodies.`,
    ...(plan.name === 'full' ? [] : [quickNote]),
    ...(isComplete(plan) ? ['![Events a second](benchmark.svg)'] : []),
    section('Machine', formatTable(['', ''], facts)),
    throughput && section('Throughput', throughputSection(throughput, contenders)),
    batches && section('Batch sizes', batchesSection(batches, contenders)),
    repeats && section('Repeats', repeatsSection(repeats, contenders)),
    growth && section('Growth', growthSection(growth, contenders)),
    latency && section('Latency', latencySection(latency)),
    uploads && section('Maps', uploadsSection(uploads)),
    send && section('Sending a file', sendSection(send)),
    databases && section('PostgreSQL', databasesSection(databases, contenders)),
    standby && section('PostgreSQL with commits of 10 ms', standbySection(standby, contenders)),
    section('How it is measured', method),
    section('What this does not prove', limits),
  ]
    .filter((part) => part !== undefined)
    .join('\n\n')
    .concat('\n')
}

/** @param {string} title @param {string} text */
function section(title, text) {
  return `## ${title}\n\n${text}`
}

const quickNote =
  '**This was a quick look**: short runs, few rounds and small stores. It shows that everything works; reliable figures need the whole benchmark.'

const method = `Load comes from a process of its own, over raw sockets with keep-alive. A connection sends its next batch, prepared in advance, when the last one is acknowledged. Every event is new unless the table says otherwise: 128 random bits seed each run, and the ids are random UUIDs (UUIDv4). Events have about 370 bytes. Every response is checked: it must be 202, with the exact numbers of accepted events and duplicates. After one wrong response, the benchmark reports nothing.

Each server is a process of its own on an empty store of its own, started for each run. Contenders take turns, so that other work of the machine affects all of them. For throughput, batch sizes and repeats, peers and Ingest on PostgreSQL are measured in every third round only. For batch sizes and repeats, all servers of a round run at the same time, but only one is loaded, once the others are idle. Disks are synced before a server takes load, so that no contender pays for the writes of another.

- **The floor** reads and parses the body and keeps nothing. **The synced floor** also appends it to a file, with one \`fdatasync\` for all queued bodies.
- **PostgreSQL** takes one \`INSERT … SELECT unnest … ON CONFLICT DO NOTHING\` a batch, prepared, on 8 connections, with default durability, and more memory and fewer checkpoints than by default.
- **SQLite** uses WAL and \`synchronous=FULL\`; queued batches share a transaction.
- **NATS JetStream** takes a message for each event, with its id as \`Nats-Msg-Id\`. By default, it syncs its files every two minutes and recognizes an id for two minutes: power loss can lose acknowledged events, and later repeats are stored again.
- The peers check no keys and no events, and keep no order: they do less than Ingest.`

const limits = `- Nothing about another machine. Two cores are shared by server, load and kernel; with more, each contender would gain differently, PostgreSQL more than what runs in one process.
- Nothing about absolute speed: the speed of such machines changes from minute to minute. Only ratios within a run mean something.
- Nothing about power loss: syncs are trusted to the file system and the disk, and virtual disks may acknowledge a sync early. A slower sync costs every contender in proportion to its syncs.
- Nothing about networks, TLS or proxies: the load is on the same machine.
- Nothing about cold caches: stores had just been written, so they were in memory as far as they fit.
- Nothing about reading, or about what else PostgreSQL can do: queries, indexes, replicas.
- Nothing about ids that ascend with time, which B-trees favor, except in "PostgreSQL".`
