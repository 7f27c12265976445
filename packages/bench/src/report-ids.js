import { formatNumber, formatTable } from './format.js'
import { formatSize } from './measure-growth.js'

const billion = 1e9

/**
 * @typedef {object} MeasuredIds
 * @property {string} measuredAt
 * @property {string} command
 * @property {import('./machine.js').Fact[]} machine
 * @property {import('./machine.js').Fact[]} versions
 * @property {number} seconds of each load, after as long a warm-up
 * @property {import('./measure-ids.js').Size[]} sizes
 */

/** @param {MeasuredIds} measured @param {{ raw: string }} files */
export function makeIdsReport({ measuredAt, command, machine, versions, seconds, sizes }, { raw }) {
  const facts = [...machine, ...versions].map(({ label, value }) => [label, value])
  const grown = sizes.map(({ ids, idsPerSecond, logBytes, indexBytes, killed }) => [
    formatSize(ids),
    formatNumber(idsPerSecond),
    ...loadCells(killed),
    formatNumber(logBytes / ids),
    formatNumber(indexBytes / ids),
  ])
  const limited = sizes.map(({ ids, limitBytes, limited, killed, skipped = '–' }) => {
    if (!limited) return [formatSize(ids), skipped, ...Array(8).fill('')]
    return [
      formatSize(ids),
      formatNumber(limitBytes / 2 ** 20),
      formatNumber(limited.idsPerSecond / killed.idsPerSecond),
      ...loadCells(limited),
      formatNumber(limited.bytesPerBatch / 1024),
      formatNumber(limited.faultsPerBatch),
    ]
  })
  const load = ['opening, ms', 'ids/s', 'p99, ms', 'CPU, µs an id', 'own memory, MiB']
  return `# The id index as it grows

Measured on ${measuredAt.slice(0, 10)} by \`${command}\`. [The figures](${raw}) are kept.

## In memory, after kill -9

${formatTable(['ids', 'ids/s while filled', ...load, 'log, bytes an id', 'index, bytes an id'], grown)}

## In less memory, with cold caches

${formatTable(['ids', 'limit, MiB', 'of the rate in memory', ...load, 'KiB read a batch', 'page faults a batch'], limited)}

${calculateBillion(sizes)}## Machine

${formatTable(['', ''], facts)}

## How it is measured

One store takes new random ids in process, in the smallest possible events, 64 batches of 100 at once, so p99 is that of a full queue. At each size its process is killed and started again: first with the caches that there are, then with none, in a memory cgroup with what the process had for itself, 32 MiB, and an eighth of the index. Each time it takes new ids for ${seconds} seconds to warm up, and for ${seconds} that count.
`
}

/** What a billion ids take, from the two largest sizes. @param {MeasuredIds['sizes']} sizes */
function calculateBillion(sizes) {
  const [smaller, larger] = sizes.slice(-2)
  if (!smaller?.killed.ownBytes || !larger?.killed.ownBytes || larger.ids >= billion) return ''
  const diskBytes = ((larger.logBytes + larger.indexBytes) / larger.ids) * billion
  const bytesPerId = (larger.killed.ownBytes - smaller.killed.ownBytes) / (larger.ids - smaller.ids)
  const ownBytes = larger.killed.ownBytes + bytesPerId * (billion - larger.ids)
  return `## By calculation

A billion ids take ${formatNumber(diskBytes / 1e9)} GB of disk. From ${formatSize(smaller.ids)} to ${formatSize(larger.ids)} ids, the memory of the process has grown by ${formatNumber(bytesPerId)} bytes an id, so that it has ${formatNumber(ownBytes / 2 ** 20)} MiB for itself then.

`
}

/** @param {import('./measure-ids.js').Load} load */
function loadCells({ openMs, idsPerSecond, p99Ms, cpuMicroseconds = Number.NaN, ownBytes = Number.NaN }) {
  return [openMs, idsPerSecond, p99Ms, cpuMicroseconds, ownBytes / 2 ** 20].map(formatNumber)
}
