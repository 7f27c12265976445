import { openSync, writeSync } from 'node:fs'
import { contentOf } from '../load/batch-content.js'

/** @typedef {ReturnType<typeof openLedger>} Ledger */

/**
 * @typedef {import('../load/batch-content.js').BatchKey & {
 *   valid: number
 *   size: number
 *   variants: number
 *   sentAt: number
 *   acknowledgedAt: number
 *   accepted: number
 *   tries: number
 * }} Batch `variants` has a bit for each content that may be stored; `acknowledgedAt` is Infinity until a 202 came;
 *   `accepted` is the sum of all responses
 */

/** @typedef {{ batch: Batch, sequence: number, variant: number, process: string, wasAcknowledged: boolean }} Sending */
/** @typedef {{ status: number, error?: string | undefined } & Partial<Record<'accepted' | 'duplicates' | 'rejected', number | undefined>>} Reply */

/**
 * A player whose events may be erased.
 *
 * @typedef {object} Player
 * @property {number} number
 * @property {number} inFlight
 * @property {boolean} isRetired new events have ended; what is unknown is not sent again
 * @property {number} erasedAt when the command that erased its events had ended; Infinity before
 */

/**
 * What was sent, and what was acknowledged. Its file is outside of the store and only appended to: a record before each
 * request, and another one after the response.
 *
 * @param {{ seed: number, path: string }} options
 */
export function openLedger({ seed, path }) {
  const file = openSync(path, 'ax')
  let sequence = 0
  /** By number. @type {Batch[]} */
  const batches = []
  /** In the order of their acknowledgement. @type {Batch[]} */
  const acknowledged = []
  /** First tries without a 202, to be sent again. @type {Batch[]} */
  const unknown = []
  /** @type {Map<number, Player>} */
  const players = new Map()
  /** @type {Map<string, { sent: number, acknowledged: number }>} */
  const counts = new Map()

  const write = (/** @type {object} */ record) =>
    void writeSync(file, `${JSON.stringify({ time: new Date().toISOString(), ...record })}\n`)

  /** Valid events, each once. @param {string} projectId */
  const countsOf = (projectId) => getOrAdd(counts, projectId, { sent: 0, acknowledged: 0 })
  /** @param {number} number */
  const playerOf = (number) => getOrAdd(players, number, { number, inFlight: 0, isRetired: false, erasedAt: Infinity })

  return {
    batches,
    acknowledged,
    unknown,
    players,
    countsOf,
    note: write,

    /** @param {{ projectId: string, player: number, buildId: string, isPlain?: boolean }} options @returns {Batch} */
    addBatch({ projectId, player, buildId, isPlain = false }) {
      const batch = createBatch(seed, { number: batches.length, projectId, player, buildId, isPlain })
      batches.push(batch)
      return batch
    },

    /**
     * @param {Batch} batch @param {{ process: string, variant: number, purpose: string }} request
     * @returns {Sending}
     */
    begin(batch, { process, variant, purpose }) {
      const wasAcknowledged = batch.acknowledgedAt < Infinity
      sequence++
      const ids = batch.tries++ === 0 && { ids: contentOf(seed, batch, variant).events.map(({ id }) => id ?? null) }
      const { number, projectId, player } = batch
      write({ process, sequence, batch: number, purpose, variant, ...(ids && { projectId, player, ...ids }) })
      playerOf(player).inFlight++
      if (batch.sentAt === Infinity) {
        batch.sentAt = Date.now()
        countsOf(projectId).sent += batch.valid
      }
      if (!wasAcknowledged) batch.variants |= 2 ** variant
      return { batch, sequence, variant, process, wasAcknowledged }
    },

    /** @param {Sending} sending @param {Reply} reply */
    end({ batch, sequence, variant, process }, reply) {
      write({ process, sequence, batch: batch.number, ...reply })
      playerOf(batch.player).inFlight--
      if (reply.status !== 202) {
        if (batch.acknowledgedAt === Infinity) unknown.push(batch)
        return
      }
      if (!acknowledge(batch, variant, reply.accepted ?? 0)) return
      acknowledged.push(batch)
      countsOf(batch.projectId).acknowledged += batch.valid
    },
  }
}

/** @param {number} seed @param {import('../load/batch-content.js').BatchKey} key @returns {Batch} */
function createBatch(seed, key) {
  const { events, valid } = contentOf(seed, key, 0)
  const state = { variants: 0, sentAt: Infinity, acknowledgedAt: Infinity, accepted: 0, tries: 0 }
  return { ...key, valid, size: events.length, ...state }
}

/** @param {Batch} batch @param {number} variant @param {number} accepted @returns {boolean} whether it is the first 202 */
function acknowledge(batch, variant, accepted) {
  // all of the batch was stored with this content
  if (batch.accepted === 0 && accepted === batch.valid) batch.variants = 2 ** variant
  batch.accepted += accepted
  if (batch.acknowledgedAt < Infinity) return false
  batch.acknowledgedAt = Date.now()
  return true
}

/** @template Key, Value @param {Map<Key, Value>} map @param {Key} key @param {Value} added @returns {Value} */
function getOrAdd(map, key, added) {
  const value = map.get(key) ?? added
  map.set(key, value)
  return value
}
