import { createRandom } from '../site/run.js'

/**
 * `isPlain` batches have no invalid or repeated events.
 *
 * @typedef {{ number: number, projectId: string, player: number, buildId: string, isPlain: boolean }} BatchKey
 *
 * @typedef {ReturnType<typeof contentOf>} Content
 */

const sizes = [1, 3, 10, 30, 60, 100]
const padBytesMax = 300
const pad = 'lorem ipsum dolor sit amet '.repeat(12)

/** Followed by the number of a player and a dot, it marks the bytes of that player's events. */
export const secretPrefix = 'soak-secret-of-'

/** The number of the batch and the position of an event; undefined for an id that was never sent. @param {string} id */
export function parseId(id) {
  const [, number, index] = /^e-(\d+)-(\d+)-/.exec(id) ?? []
  return number === undefined ? undefined : { number: Number(number), index: Number(index) }
}

/**
 * Derives the events of a batch from the seed and its number, so that stored events can be compared with sent ones
 * without keeping these. `valid` events can be accepted; `rejected` has the positions of invalid ones.
 *
 * @param {number} seed
 * @param {BatchKey} batch
 * @param {number} variant selects one of several contents under the same ids
 */
export function contentOf(seed, batch, variant) {
  const random = createRandom(seed, 'batch', batch.number)
  const size = random.pick(sizes)
  const hasInvalid = random.chance(0.15) && !batch.isPlain
  const repeatsFirst = random.chance(0.1) && !batch.isPlain
  /** `id` is undefined for an event that must never be stored. @type {{ id: string | undefined, text: string }[]} */
  const events = []
  /** @type {number[]} */
  const rejected = []
  for (let index = 0; index < size; index++) {
    if (hasInvalid && random.chance(0.2)) {
      rejected.push(index)
      events.push({ id: undefined, text: invalidEvent(batch, index, random) })
    } else {
      const id = `e-${batch.number}-${index}-${random.integer(0, 0xfffffff).toString(36)}`
      events.push({ id, text: eventText(batch, { id, variant, padBytes: random.integer(0, padBytesMax) }) })
    }
  }
  const valid = events.length - rejected.length
  const first = events.find(({ id }) => id !== undefined)?.id
  // of several events with one id, the first is stored
  if (repeatsFirst && first !== undefined) {
    events.push({ id: undefined, text: eventText(batch, { id: first, variant: 99, padBytes: 0 }) })
  }
  return { events: events.slice(0, 100), valid, rejected }
}

/** @param {Content} content */
export function bodyOf({ events }) {
  return Buffer.from(`{"events":[${events.map(({ text }) => text).join(',')}]}`)
}

/** @param {BatchKey} batch @param {{ id: string, variant: number, padBytes: number }} event */
function eventText({ projectId, player, buildId }, { id, variant, padBytes }) {
  const ids = `"projectId":"${projectId}","eventId":"${id}","playerId":${player},"buildId":"${buildId}"`
  return `{${ids},"secret":"${secretPrefix}${player}.","variant":${variant},"pad":"${pad.slice(0, padBytes)}"}`
}

/** @param {BatchKey} batch @param {number} index @param {import('../site/run.js').Random} random */
function invalidEvent({ projectId, number }, index, random) {
  const id = `invalid-${number}-${index}`
  return random.pick([
    '7',
    '"text"',
    `{"projectId":"${projectId}"}`,
    `{"projectId":"another","eventId":"${id}"}`,
    `{"projectId":"${projectId}","eventId":"${id}","type":1}`,
    `{"projectId":"${projectId}","eventId":"${id}","buildId":""}`,
  ])
}
