import { loadAtHalfRate, openOurs } from '../contenders/open-contender.js'
import { startProgram } from '../contenders/start-program.js'
import { formatTable } from '../report/format.js'
import { figureCell, formatThreads, processorTime } from '../report/rounds.js'

/**
 * @typedef {object} Uploads
 * @property {{ bytes: number, newMs: number, againMs: number }[]} published maps on a server without other load
 * @property {UploadRound[]} rounds
 *
 * @typedef {object} UploadRound
 * @property {import('../load/send-load.js').LoadResult} without
 * @property {import('../load/send-load.js').LoadResult} during
 * @property {number} uploadedBytes
 * @property {number} seconds of the uploads
 */

/** The size of a large map. */
const publishedBytes = 55_000_000
/** The size of each map that is published during the load. */
const uploadedBytes = 8_000_000

/**
 * How fast a map is published, and the latency of events while maps are published one after another.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<Uploads>}
 */
export async function measureUploads(context, plan) {
  const opened = await openOurs(context, 'uploads')
  const uploader = await startProgram(new URL('../load/load-process.js', import.meta.url), opened.program.started)
  try {
    // warms up the code for the measured maps
    await uploader.call('publish', { bytes: publishedBytes })
    const published = []
    for (let round = 0; round < plan.rounds; round++) {
      published.push(await uploader.call('publish', { bytes: publishedBytes }))
      context.log(`round ${round + 1}: ${publishedBytes / 1e6} MB in ${published.at(-1)?.newMs.toFixed(0)} ms`)
    }
    const { load } = await loadAtHalfRate(opened, plan, plan.uploadSeconds)
    const seconds = load.warmupSeconds + load.seconds
    const rounds = []
    for (let round = 0; round < plan.rounds; round++) {
      const without = await opened.send(load)
      const uploading = uploader.call('upload', { seconds, bytes: uploadedBytes })
      const during = await opened.send(load)
      rounds.push({ without, during, uploadedBytes: await uploading, seconds })
      context.log(`round ${round + 1}: p99 ${without.p99Ms.toFixed(1)} ms, with uploads ${during.p99Ms.toFixed(1)} ms`)
    }
    return { published, rounds }
  } finally {
    await uploader.kill()
    await opened.close()
  }
}

/** @param {Uploads} uploads */
export function uploadsSection({ published, rounds }) {
  const cells = (/** @type {'without' | 'during'} */ key) => {
    const runs = rounds.map((round) => round[key])
    return [
      figureCell(runs, ({ p50Ms }) => p50Ms),
      figureCell(runs, ({ p99Ms }) => p99Ms),
      figureCell(runs, processorTime),
      formatThreads(runs.map(({ processor }) => processor)),
    ]
  }
  const allNew = figureCell(published, ({ bytes, newMs }) => bytes / 1e3 / newMs)
  const again = figureCell(published, ({ bytes, againMs }) => bytes / 1e3 / againMs)
  const uploaded = figureCell(rounds, (round) => round.uploadedBytes / 1e6 / round.seconds)
  return [
    `A map of 55 MB is published over loopback at ${allNew} MB/s if all of it is new, and a second time at ${again} MB/s. Both include hashing and splitting into chunks; a first map is not counted.`,
    `Events are sent at even intervals, at half of the rate that the same store took just before, while new maps of 8 MB are published one after another, at ${uploaded} MB/s.`,
    formatTable(
      ['responses to events', 'p50 ms', 'p99 ms', 'processor time, µs an event', 'by thread'],
      [
        ['without uploads', ...cells('without')],
        ['while maps are uploaded', ...cells('during')],
      ],
    ),
  ].join('\n\n')
}
