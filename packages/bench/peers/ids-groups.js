import { idOf, makeBatch, makeSmallEvent, newSeed, stampBatch } from '@ingest/bench/make-batch'

/** As many batches as Ingest has in flight while it is filled; what gathers is one commit there too. */
const batchesPerGroup = 64
const eventsPerBatch = 100
const digitsAt = [0, 2, 4, 6, 9, 11, 24, 26]

/**
 * Batches of new ids, in groups that are committed together.
 *
 * @param {string} projectId
 */
export function createGroups(projectId) {
  const batch = makeBatch(projectId, eventsPerBatch, { event: makeSmallEvent })
  const seed = newSeed()
  let number = 0
  /**
   * The bodies, for the log, and the fingerprints of the ids with their positions, 8 bytes each.
   *
   * @returns {{ bodies: { sequence: number, body: Buffer }[], entries: { key: Buffer, position: Buffer }[] }}
   */
  return function nextGroup() {
    const bodies = []
    const entries = []
    for (let i = 0; i < batchesPerGroup; i++) {
      stampBatch(batch, seed, number)
      const sequence = ++number
      bodies.push({ sequence, body: Buffer.from(batch.body) })
      for (let index = 0; index < eventsPerBatch; index++)
        entries.push({ key: keyOf(idOf(batch, index)), position: positionOf(sequence, index) })
    }
    return { bodies, entries }
  }
}

/** The ids are random, so 64 bits of them are as good as a hash. @param {string} id */
function keyOf(id) {
  const key = Buffer.allocUnsafe(8)
  for (let i = 0; i < 8; i++) {
    const at = /** @type {number} */ (digitsAt[i])
    key[i] = (digitOf(id.charCodeAt(at)) << 4) | digitOf(id.charCodeAt(at + 1))
  }
  return key
}

/** @param {number} code of a hexadecimal digit */
function digitOf(code) {
  return code < 58 ? code - 48 : code - 87
}

/** @param {number} sequence @param {number} index */
function positionOf(sequence, index) {
  const position = Buffer.allocUnsafe(8)
  position.writeUInt32BE(sequence, 0)
  position.writeUInt32BE(index, 4)
  return position
}
