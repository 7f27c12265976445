import { join } from 'node:path'
import { projectId } from './contenders.js'
import { diskBytes } from './disk-bytes.js'
import { syncDisks } from './open-contender.js'
import { processorTimePerEvent, readProcessorTime, totalOf } from './processor-time.js'
import { startProgram } from './start-program.js'

/**
 * One step of one contender.
 *
 * @typedef {object} Step
 * @property {number} ids how many it holds at the end of the step
 * @property {number} idsPerSecond during the step
 * @property {number | undefined} cpuMicroseconds an id, during the step
 * @property {number} diskBytes an event with its log and index
 * @property {number | undefined} ownBytes memory of its own, an id
 */

/** @typedef {{ title: string, steps: Step[], stopped?: string }} Series */

const contenders = [
  { name: 'ours', title: 'Ingest', file: 'servers/preload.js', options: { isSmall: true } },
  { name: 'btree', title: 'B-tree', file: 'peers/ids-btree.js', options: { mode: 'unsorted' } },
  {
    name: 'btree-sorted',
    title: 'B-tree, each commit sorted',
    file: 'peers/ids-btree.js',
    options: { mode: 'sorted' },
  },
  {
    name: 'btree-bulk',
    title: 'B-tree, 250,000 at once, sorted',
    file: 'peers/ids-btree.js',
    options: { mode: 'bulk' },
  },
  { name: 'level', title: 'LSM tree (LevelDB)', file: 'peers/ids-level.js', options: {} },
]
const stepsInAll = 10

/**
 * New random ids into stores that keep the same log and differ in how they find an id: in ten steps, which the
 * contenders take in turns.
 *
 * @param {{ directory: string, ids: number, secondsMax: number, log: (line: string) => void }} options
 * @returns {Promise<Series[]>}
 */
export async function measureIds({ directory, ids, secondsMax, log }) {
  const running = await Promise.all(
    contenders.map(async ({ name, title, file, options }) => {
      const store = join(directory, `ids-${name}`)
      const program = await startProgram(file, { ...options, directory: store, projectId })
      /** @type {Series} */
      const series = { title, steps: [] }
      return { store, program, series, seconds: 0 }
    }),
  )
  for (let step = 1; step <= stepsInAll; step++) {
    for (const contender of running) {
      const { series, store, program } = contender
      if (series.stopped !== undefined) continue
      await syncDisks()
      const { seconds, ...measured } = await measureStep(program, store, { events: Math.ceil(ids / stepsInAll), step })
      contender.seconds += seconds
      series.steps.push(measured)
      log(
        `${series.title}: ${measured.ids.toLocaleString('en')} ids, ${Math.round(measured.idsPerSecond).toLocaleString('en')} a second`,
      )
      if (contender.seconds > secondsMax) series.stopped = `stopped after ${Math.round(contender.seconds)} s`
    }
  }
  for (const { program } of running) await program.stop()
  return running.map(({ series }) => series)
}

/** @param {import('./start-program.js').Program} program @param {string} store @param {{ events: number, step: number }} of */
async function measureStep(program, store, { events, step }) {
  const processorBefore = readProcessorTime(program)
  const before = performance.now()
  await program.call('append', { events })
  const seconds = (performance.now() - before) / 1000
  const cpuMicroseconds = totalOf(processorTimePerEvent(processorBefore, readProcessorTime(program), events))
  const own = await program.call('memory')
  return {
    seconds,
    ids: events * step,
    idsPerSecond: events / seconds,
    cpuMicroseconds,
    diskBytes: diskBytes(store) / (events * step),
    ownBytes: own === null ? undefined : own / (events * step),
  }
}
