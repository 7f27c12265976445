import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'
import { startProgram } from './start-program.js'

/**
 * @typedef {object} Uploads
 * @property {{ bytes: number, newMs: number, againMs: number }[]} published maps on a server that has nothing else to do
 * @property {UploadRound[]} rounds
 *
 * @typedef {object} UploadRound
 * @property {import('./send-load.js').LoadResult} without
 * @property {import('./send-load.js').LoadResult} during
 * @property {number} uploadedBytes
 * @property {number} seconds that the uploads went on
 */

/** Enough that a batch which is due hardly ever waits for a connection. */
const connections = 64
/** A large map of a game. */
const publishedBytes = 55_000_000
/** What is published over and over while events come in. */
const uploadedBytes = 8_000_000

/**
 * How fast a map is published, and what publishing one map after another does to the answers to events, which come
 * evenly, at half of the rate that the same store takes from a closed loop.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Uploads>}
 */
export async function measureUploads(context, { rounds, seconds, warmupSeconds, uploadSeconds }) {
  const [ours] = context.contenders.filter(({ name }) => name === 'ours')
  if (!ours) throw new Error('uploads are measured of ours')
  const opened = await openContender(context, ours, { store: 'uploads', isFresh: true })
  const uploader = await startProgram('src/upload.js', opened.program.started)
  try {
    // the first one compiles what the others run
    await uploader.call('publish', { bytes: publishedBytes })
    const published = []
    for (let round = 0; round < rounds; round++) {
      published.push(await uploader.call('publish', { bytes: publishedBytes }))
      context.log(`round ${round + 1}: ${publishedBytes / 1e6} MB in ${published.at(-1)?.newMs.toFixed(0)} ms`)
    }
    const { eventsPerSecond } = await opened.send({ ...usualLoad, seconds, warmupSeconds })
    const batchesPerSecond = eventsPerSecond / usualLoad.count / 2
    const load = { ...usualLoad, connections, seconds: uploadSeconds, warmupSeconds, batchesPerSecond }
    const results = []
    for (let round = 0; round < rounds; round++) {
      const without = await opened.send(load)
      const uploading = uploader.call('upload', { seconds: warmupSeconds + uploadSeconds, bytes: uploadedBytes })
      const during = await opened.send(load)
      results.push({ without, during, uploadedBytes: await uploading, seconds: warmupSeconds + uploadSeconds })
      context.log(`round ${round + 1}: p99 ${without.p99Ms.toFixed(1)} ms, with uploads ${during.p99Ms.toFixed(1)} ms`)
    }
    return { published, rounds: results }
  } finally {
    await uploader.kill()
    await opened.close()
  }
}
