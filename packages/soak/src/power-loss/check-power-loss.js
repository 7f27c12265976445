import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freeDiskBytes } from '@ingest/bench/disk-bytes'
import { createRandom } from '../site/run.js'
import { createDisk } from './disk.js'

/**
 * @typedef {import('./read-log.js').Operation} Operation
 * @typedef {import('./check-images.js').Expected} Expected
 * @typedef {import('./check-images.js').Checked} Checked
 *
 * @typedef {object} PowerLossOptions
 * @property {string} root
 * @property {Operation[]} operations
 * @property {string} [directory] receives the first images that have a problem
 * @property {number} seed
 * @property {number} images
 * @property {(operation: Operation, isDirectory: boolean) => boolean} [ignores] syncs that the disk ignores
 * @property {boolean} [acknowledgesEarly] treats everything as acknowledged before it is done
 * @property {boolean} [endsAtFirst] whether to end at the first problem
 * @property {AbortSignal} [signal] ends it early
 *
 * @typedef {{ image: number, phase: string, at: number, mode: string, problem: string }} Problem
 * @typedef {{ images: number, acknowledged: number, stored: number }} Counts
 */

/** Longer than any check of an image. */
const deadlineMs = 120_000
const keptMax = 3
/** Images in memory cost no syncs. */
const memory = '/dev/shm'
const memoryBytesMin = 2 ** 30
/** The age of all files of an image, less than a machine takes to restart; locks of invisible processes are stale then. */
const agedSeconds = 60

/**
 * Simulates power losses at random moments of a recorded workload, and opens what the disk may hold then. Returns the
 * problems and, for each phase of the workload, the numbers of images and of acknowledged and stored events.
 *
 * @param {PowerLossOptions} options
 */
export async function checkPowerLoss(options) {
  const { root, operations, directory, seed, ignores, acknowledgesEarly = false, endsAtFirst = false, signal } = options
  const disk = createDisk({ root, ...(ignores && { ignores }) })
  const checker = createChecker()
  const expectations = createExpectations(acknowledgesEarly)
  const isInMemory = existsSync(memory) && freeDiskBytes(memory) > memoryBytesMin
  const scratch = mkdtempSync(join(isInMemory ? memory : tmpdir(), 'ingest-images-'))
  const remove = () => rmSync(scratch, { recursive: true, force: true })
  process.once('exit', remove)
  /** @type {Record<string, Counts>} */
  const counts = {}
  /** @type {Problem[]} */
  const problems = []
  let done = 0
  for (const { image, at } of cutsOf(options)) {
    if (signal?.aborted || (endsAtFirst && problems.length > 0)) break
    for (; done < at; done++) {
      const operation = /** @type {Operation} */ (operations[done])
      disk.apply(operation, done)
      if (operation.op === 'note') expectations.add(operation.note)
    }
    const { phase, prefixes, expected } = expectations.current()
    const crash = (/** @type {string} */ to) =>
      disk.crash(to, { random: createRandom(seed, 'content', image), at, prefixes })
    const path = join(scratch, `image-${image}`)
    const mode = crash(path)
    age(path)
    const { problem, acknowledged, stored } = await checker.check({ directory: path, prefixes, expected })
    rmSync(path, { recursive: true })
    addTo(counts, phase, { images: 1, acknowledged, stored })
    if (!problem) continue
    // the check has changed the image: keep a fresh one
    if (directory && problems.length < keptMax) {
      const kept = join(directory, `image-${image}`)
      // an earlier run on the same recording may have left this image
      rmSync(kept, { recursive: true, force: true })
      crash(kept)
    }
    problems.push({ image, phase, at, mode, problem })
  }
  checker.stop()
  process.off('exit', remove)
  remove()
  return { problems, counts }
}

/** @param {Record<string, Counts>} all @param {string} phase @param {Counts} more */
function addTo(all, phase, more) {
  const { images, acknowledged, stored } = all[phase] ?? { images: 0, acknowledged: 0, stored: 0 }
  all[phase] = {
    images: images + more.images,
    acknowledged: acknowledged + more.acknowledged,
    stored: stored + more.stored,
  }
}

/**
 * The moments of the power losses, in the order of the log. Each phase gets its share, however short it is, and so do
 * the moments right after an acknowledgement.
 *
 * @param {PowerLossOptions} options
 */
function cutsOf({ operations, seed, images }) {
  const phases = placesOf(operations, 'phase')
  const ends = placesOf(operations, 'end')
  const cuts = Array.from({ length: images }, (_, image) => {
    const random = createRandom(seed, 'image', image)
    const phase = image % phases.length
    const from = (phases[phase] ?? 0) + 1
    const to = phases[phase + 1] ?? operations.length
    const inPhase = ends.filter((at) => at >= from && at < to)
    const isBehind = random.chance(0.4) && inPhase.length > 0
    return { image, at: isBehind ? random.pick(inPhase) + 1 : random.integer(from, to) }
  })
  return cuts.sort((a, b) => a.at - b.at)
}

/** @param {Operation[]} operations @param {'phase' | 'end'} type */
function placesOf(operations, type) {
  return operations.flatMap((each, at) => (each.op === 'note' && each.note.type === type ? [at] : []))
}

/** @param {boolean} acknowledgesEarly */
function createExpectations(acknowledgesEarly) {
  let phase = ''
  /** @type {string[]} */
  let prefixes = []
  /** Keyed by the number of the promise. @type {Map<number, Expected>} */
  const expected = new Map()
  return {
    /** @param {import('./read-log.js').Note} note */
    add(note) {
      if (note.type === 'phase') [phase, prefixes] = [note.name, note.prefixes]
      else expected.set(note.number, { ...note.promised, isKept: acknowledgesEarly || note.type === 'end' })
    },
    current: () => ({ phase, prefixes, expected: [...expected.values()] }),
  }
}

/** Checks images in a child process, which is replaced after a crash. */
function createChecker() {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  let child
  const start = () =>
    fork(fileURLToPath(new URL('check-images.js', import.meta.url)), {
      execArgv: [],
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
  return {
    /** @param {import('./check-images.js').Image} image @returns {Promise<Checked>} */
    async check(image) {
      child ??= start()
      const running = child
      running.send(image)
      const timer = setTimeout(() => running.kill('SIGKILL'), deadlineMs)
      const ended = new AbortController()
      const { signal } = ended
      const result = await Promise.race([
        once(running, 'message', { signal }).then(([checked]) => checked),
        once(running, 'exit', { signal }).then(([code, name]) => {
          child = undefined
          return { problem: `the process ended: ${name ?? code}`, acknowledged: 0, stored: 0 }
        }),
      ])
      clearTimeout(timer)
      ended.abort()
      return result
    },
    stop: () => child?.disconnect(),
  }
}

/** @param {string} path */
function age(path) {
  const time = Date.now() / 1000 - agedSeconds
  for (const name of readdirSync(path, { recursive: true })) utimesSync(join(path, String(name)), time, time)
}
