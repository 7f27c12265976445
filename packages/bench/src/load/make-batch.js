import { randomFillSync } from 'node:crypto'

/**
 * The seed of one run: 128 random bits, and the time of the first batch for ids of version 7.
 *
 * @typedef {[number, number, number, number, number]} Seed
 */

/**
 * The events that a batch repeats: `count` events of another batch, from index `at` on.
 *
 * @typedef {{ batch: number, at: number, count: number }} Repeats
 */

/**
 * A request, or only a body, whose event ids are replaced in place.
 *
 * @typedef {object} Batch
 * @property {Buffer} bytes the head of the request, if there is one, and the body
 * @property {Buffer} body
 * @property {number} count
 * @property {readonly number[]} idsAt where the 36 characters of each event id start, in `body`
 * @property {4 | 7} idVersion of the UUIDs
 */

/** @returns {Seed} */
export function newSeed() {
  return /** @type {Seed} */ ([...randomFillSync(new Uint32Array(4)), Date.now()])
}

const idLength = 36
const placeholder = '00000000-0000-4000-8000-000000000000'
const versionAt = 14

/**
 * A batch of `count` events of about 350 bytes each.
 *
 * @param {string} projectId
 * @param {number} count
 * @param {{ head?: (bodyBytes: number) => string, idVersion?: 4 | 7 }} [options] `head` returns the text before the body;
 *   ids of version 7 ascend with the number of their batch
 * @returns {Batch}
 */
export function makeBatch(projectId, count, { head = () => '', idVersion = 4 } = {}) {
  const text = JSON.stringify({ events: Array.from({ length: count }, (_, i) => makeEvent(projectId, i)) })
  const headText = head(Buffer.byteLength(text))
  const bytes = Buffer.from(headText + text)
  const body = bytes.subarray(Buffer.byteLength(headText))
  const idsAt = []
  for (let at = body.indexOf(placeholder); at !== -1; at = body.indexOf(placeholder, at + idLength)) idsAt.push(at)
  if (idVersion === 7) for (const at of idsAt) body[at + versionAt] = 0x37
  return { bytes, body, count, idsAt, idVersion }
}

/** @param {string} projectId @param {number} number */
function makeEvent(projectId, number) {
  // derived from the number, because a batch that is sent again must have the same bytes
  const player = (number * 618_033) % 1_000_000
  return {
    projectId,
    eventId: placeholder,
    type: ['player.moved', 'weapon.fired', 'item.bought', 'round.ended'][number % 4],
    timestamp: new Date(1_750_000_000_000 + number * 40).toISOString(),
    buildId: 'build-2025.6.1',
    placeId: `place-${1000 + (number % 7)}`,
    sessionId: `session-${(player * 7919 + 1e9).toString(36)}-${(player * 104_729).toString(36)}`,
    playerId: `player-${1e6 + player}`,
    position: { x: coordinate(number), y: coordinate(number + 1), z: coordinate(number + 2) },
    properties: { weapon: 'longbow', team: 'red', health: 87, ping: 12 + (number % 30) },
  }
}

/** @param {number} number */
function coordinate(number) {
  return (((number * 77_773) % 200_001) - 100_000) / 100
}

const words = new Uint32Array(4)
const hex = Uint8Array.from({ length: 512 }, (_, i) => {
  return (i & 1 ? (i >> 1) & 15 : i >> 5).toString(16).charCodeAt(0)
})

/**
 * Writes the ids of the events: UUIDs derived from the seed and the number, so that a batch can be sent again. The first
 * `repeats.count` events get the ids of events of another batch.
 *
 * @param {Batch} batch
 * @param {Seed} seed
 * @param {number} number below 2^32
 * @param {Repeats} [repeats]
 */
export function stampBatch(batch, seed, number, repeats) {
  startIds(seed, number)
  writeIds(batch, batch.count)
  if (batch.idVersion === 7) writeTimes(batch, seed[4] + number)
  if (!repeats) return
  startIds(seed, repeats.batch)
  for (let i = 0; i < repeats.at; i++) nextWords()
  writeIds(batch, repeats.count)
}

/** @param {Batch} batch @param {number} count */
function writeIds({ body, idsAt }, count) {
  for (let i = 0; i < count; i++) {
    nextWords()
    writeId(body, /** @type {number} */ (idsAt[i]))
  }
}

/** Writes the times of version 7, one millisecond apart per batch, as at 1,000 batches a second. @param {Batch} batch @param {number} ms */
function writeTimes({ body, idsAt }, ms) {
  const digits = ms.toString(16).padStart(12, '0')
  for (const at of idsAt) {
    body.write(digits.slice(0, 8), at, 'latin1')
    body.write(digits.slice(8), at + 9, 'latin1')
  }
}

/** The current id of an event. @param {Batch} batch @param {number} index */
export function idOf({ body, idsAt }, index) {
  const at = /** @type {number} */ (idsAt[index])
  return body.toString('latin1', at, at + idLength)
}

let a = 0
let b = 0
let c = 0
let counter = 0

/** @param {Seed} seed @param {number} number */
function startIds(seed, number) {
  a = seed[0] ^ number
  b = seed[1]
  c = seed[2] ^ Math.imul(number, 0x9e3779b1)
  counter = seed[3]
  for (let i = 0; i < 3; i++) nextWords()
}

/** Four words of sfc32 (Chris Doty-Humphrey's PractRand, public domain). */
function nextWords() {
  for (let i = 0; i < 4; i++) {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    words[i] = sum
  }
}

// the positions of 14 random bytes; the rest of a UUID does not change
const bytesAt = [0, 2, 4, 6, 9, 11, 16, 21, 24, 26, 28, 30, 32, 34]

/** @param {Buffer} body @param {number} at */
function writeId(body, at) {
  for (let i = 0; i < bytesAt.length; i++) {
    const word = /** @type {number} */ (words[i >> 2])
    const pair = ((word >>> ((i & 3) * 8)) & 255) << 1
    const to = at + /** @type {number} */ (bytesAt[i])
    body[to] = /** @type {number} */ (hex[pair])
    body[to + 1] = /** @type {number} */ (hex[pair | 1])
  }
}
