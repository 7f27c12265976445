import { openSync, writeSync } from 'node:fs'
import { contentOf } from './batch-content.js'

/**
 * The outside ledger: what was sent, and what was acknowledged. Its file is only appended to, outside of the store: a
 * record before each request, and another one when the response has arrived.
 *
 * @typedef {object} Ledger
 * @property {Batch[]} batches by number
 * @property {Batch[]} acknowledged in the order of their acknowledgement
 * @property {Batch[]} unknown first tries without a 202, to be sent again
 * @property {Map<number, Player>} players
 * @property {(options: { projectId: string, player: number, buildId: string, isPlain?: boolean }) => Batch} addBatch
 * @property {(batch: Batch, request: { process: string, variant: number, purpose: string }) => Sending} begin
 * @property {(sending: Sending, reply: Reply) => void} end
 * @property {(record: object) => void} note anything else that happened, with its time
 * @property {(projectId: string) => { sent: number, acknowledged: number }} countsOf valid events, each once
 */

/**
 * @typedef {import('./batch-content.js').BatchKey & {
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

/** @param {{ seed: number, path: string }} options @returns {Ledger} */
export function openLedger({ seed, path }) {
  const file = openSync(path, 'ax')
  let sequence = 0
  /** @type {Batch[]} */
  const batches = []
  /** @type {Batch[]} */
  const acknowledged = []
  /** @type {Batch[]} */
  const unknown = []
  /** @type {Map<number, Player>} */
  const players = new Map()
  /** @type {Map<string, { sent: number, acknowledged: number }>} */
  const counts = new Map()

  /** @param {object} record */
  function write(record) {
    writeSync(file, `${JSON.stringify({ time: new Date().toISOString(), ...record })}\n`)
  }

  /** @param {string} projectId */
  function countsOf(projectId) {
    const known = counts.get(projectId) ?? { sent: 0, acknowledged: 0 }
    counts.set(projectId, known)
    return known
  }

  /** @param {number} number */
  function playerOf(number) {
    const known = players.get(number) ?? { number, inFlight: 0, isRetired: false, erasedAt: Infinity }
    players.set(number, known)
    return known
  }

  return {
    batches,
    acknowledged,
    unknown,
    players,
    countsOf,
    note: write,

    addBatch({ projectId, player, buildId, isPlain = false }) {
      const key = { number: batches.length, projectId, player, buildId, isPlain }
      const { events, valid } = contentOf(seed, key, 0)
      const state = { variants: 0, sentAt: Infinity, acknowledgedAt: Infinity, accepted: 0, tries: 0 }
      const batch = { ...key, valid, size: events.length, ...state }
      batches.push(batch)
      return batch
    },

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

    end({ batch, sequence, variant, process }, reply) {
      write({ process, sequence, batch: batch.number, ...reply })
      playerOf(batch.player).inFlight--
      if (reply.status !== 202) {
        if (batch.acknowledgedAt === Infinity) unknown.push(batch)
        return
      }
      if (batch.accepted === 0 && reply.accepted === batch.valid) batch.variants = 2 ** variant
      batch.accepted += reply.accepted ?? 0
      if (batch.acknowledgedAt < Infinity) return
      batch.acknowledgedAt = Date.now()
      acknowledged.push(batch)
      countsOf(batch.projectId).acknowledged += batch.valid
    },
  }
}
