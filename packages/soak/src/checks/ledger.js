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
 * }} Batch `variants` has a bit for each content that may be stored; `acknowledgedAt` is Infinity before the first 202;
 *   `accepted` is the sum over all responses
 */

/** @typedef {{ batch: Batch, sequence: number, variant: number, process: string, wasAcknowledged: boolean }} Sending */
/** @typedef {{ status: number, error?: string | undefined } & Partial<Record<'accepted' | 'duplicates' | 'rejected', number | undefined>>} Reply */

/**
 * A player whose events may be erased.
 *
 * @typedef {object} Player
 * @property {number} number
 * @property {number} inFlight
 * @property {boolean} isRetired nothing of it is sent any more, not even batches of unknown outcome
 * @property {number} erasedAt when the command that erased its events ended; Infinity before
 */

/**
 * Records what was sent and what was acknowledged, in an append-only file outside the store: one record before each
 * request and one after its response.
 *
 * @param {{ seed: number, path: string }} options
 */
export function openLedger({ seed, path }) {
  const file = openSync(path, 'ax')
  let sequence = 0
  /** Indexed by number. @type {Batch[]} */
  const batches = []
  /** In the order of acknowledgement. @type {Batch[]} */
  const acknowledged = []
  /** Batches whose first attempt got no 202; they are sent again. @type {Batch[]} */
  const unknown = []
  /** @type {Map<number, Player>} */
  const players = new Map()
  /** @type {Map<string, { sent: number, acknowledged: number }>} */
  const counts = new Map()

  const write = (/** @type {object} */ record) =>
    void writeSync(file, `${JSON.stringify({ time: new Date().toISOString(), ...record })}\n`)

  /** Counts each valid event once. @param {string} projectId */
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
  // the whole batch was stored with this content
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
