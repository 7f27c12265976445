import { formatNumber, formatTable } from './format.js'
import { formatSize } from './measure-growth.js'
import { lineChart, page } from './plot.js'

/**
 * @typedef {object} MeasuredIds
 * @property {string} measuredAt
 * @property {string} command
 * @property {number} ids
 * @property {number} secondsMax
 * @property {import('./machine.js').Fact[]} machine
 * @property {import('./machine.js').Fact[]} versions
 * @property {import('./measure-ids.js').Series[]} series
 */

/** @param {MeasuredIds} measured @param {{ plot: string, raw: string }} files */
export function makeIdsReport({ measuredAt, command, machine, versions, series }, { plot, raw }) {
  const [ours] = series
  const steps = series.flatMap(({ title, steps, stopped }) => {
    const rows = steps.map((step, i) => {
      const own = ours?.steps[i]
      return [
        title,
        formatSize(step.ids),
        formatNumber(step.idsPerSecond),
        own ? formatNumber(own.idsPerSecond / step.idsPerSecond) : '–',
        step.cpuMicroseconds === undefined ? '–' : formatNumber(step.cpuMicroseconds),
        formatNumber(step.diskBytes),
        step.ownBytes === undefined ? '–' : formatNumber(step.ownBytes),
      ]
    })
    return stopped === undefined ? rows : [...rows, [title, stopped, '', '', '', '', '']]
  })
  const facts = [...machine, ...versions].map(({ label, value }) => [label, value])
  return `# The id index beside a B-tree and an LSM tree

Measured on ${measuredAt.slice(0, 10)} by \`${command}\`. [The figures](${raw}) are kept.

![Ids a second as their number grows](${plot})

${formatTable(['', 'ids', 'ids/s in this step', 'Ingest is faster by', 'CPU, µs an id', 'disk, bytes an event', 'own memory, bytes an id'], steps)}

## Machine

${formatTable(['', ''], facts)}

## How it is measured

All contenders do the same work: each random id is looked up and, as it is new, added, and the smallest possible events go into a log of batches of 100, durable with the ids, some 64 batches a commit. Only how an id is found differs. Ingest does it through \`submitBatch\`, which also parses and checks the events, with its own hash, its checksums and its queue; the others are the shortest programs that can be written with their libraries. Contenders take turns, a tenth of all ids each. Memory is what the process has for itself after a garbage collection; at the first steps most of it is Node itself.

## What this does not prove

- Nothing about look-ups of ids that are there: every id is new.
- Nothing about data larger than memory, where B-trees would fare worse than here.
- Nothing about other LSM libraries, or about a B-tree in C without Node in between.
- One pass, not several: a step is one measurement, and its neighbours show the noise.
`
}

/** @param {MeasuredIds} measured */
export function makeIdsPlot({ series }) {
  const lines = series.map(({ title, steps }) => ({
    title,
    points: steps.map(({ ids, idsPerSecond }) => ({ x: ids, label: formatSize(ids), y: idsPerSecond })),
  }))
  return page([lineChart('Ids a second, looked up and added', 'ids stored', lines)])
}
