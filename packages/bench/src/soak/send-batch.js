import { bodyOf, contentOf } from './batch-content.js'
import { request } from './request.js'
import { headersOf } from './site.js'

/**
 * @typedef {import('./site.js').Site} Site
 * @typedef {import('./ledger.js').Batch} Batch
 * @typedef {import('./servers.js').Incarnation} Incarnation
 * @typedef {{ accepted: number, duplicates: number, rejected: { index: number }[] }} Counts
 */

/** Another content under the ids of a batch that is acknowledged: it must change nothing. */
export const alteredVariant = 9

/** The codes with which a healthy server may refuse a valid batch: on a busy machine, one may also arrive too slowly. */
const refusals = [
  'draining',
  'overloaded',
  'store-locked',
  'disk-full',
  'store-unavailable',
  'key-store-unavailable',
  'request-timeout',
]

/**
 * Sends a batch, with records in the ledger before and after, and judges the response.
 *
 * @param {Site} site
 * @param {Batch} batch
 * @param {{ server: Incarnation, random: import('./random.js').Random, purpose: string, variant?: number }} options
 * @returns {Promise<Counts | undefined>} undefined without a 202
 */
export async function sendBatch(site, batch, { server, random, purpose, variant = variantOf(batch) }) {
  const { run, ledger } = site
  const content = contentOf(run.seed, batch, variant)
  const body = bodyOf(content)
  const headers = { 'Content-Type': 'application/json', ...headersOf(site, batch.projectId, random) }
  const sending = ledger.begin(batch, { process: server.id, variant, purpose })
  const response = await request(run, server, { method: 'POST', path: '/v1/events/batch', headers, body })
  const { status, error } = response
  const counts = status === 202 ? /** @type {Counts} */ (JSON.parse(response.body.toString())) : undefined
  const { accepted, duplicates } = counts ?? {}
  ledger.end(sending, { status, error, ...(counts && { accepted, duplicates, rejected: counts.rejected.length }) })
  if (counts) judgeCounts(site, { sending, content, counts, server })
  else if (status !== 0) judgeRefusal(site, { status, text: response.body.toString(), server })
  return counts
}

/** What is sent again has the content of one of the first tries. @param {Batch} batch */
function variantOf({ variants }) {
  return variants === 0 ? 0 : 31 - Math.clz32(variants & -variants)
}

/**
 * @param {Site} site
 * @param {{ sending: import('./ledger.js').Sending, content: import('./batch-content.js').Content, counts: Counts, server:
 *   Incarnation }} result
 */
function judgeCounts({ run }, { sending, content, counts, server }) {
  const { batch, wasAcknowledged, sequence } = sending
  const { accepted, duplicates, rejected } = counts
  const details = { batch: batch.number, projectId: batch.projectId, player: batch.player, sequence, server: server.id }
  if (wasAcknowledged && accepted > 0) {
    run.violate('acknowledged events are stored: sent again, they are duplicates', { ...details, lost: accepted })
  } else if (batch.accepted > batch.valid) {
    run.violate('an event is accepted once', { ...details, accepted: batch.accepted, valid: batch.valid })
  }
  if (accepted + duplicates + rejected.length !== content.events.length) {
    run.violate('accepted + duplicates + rejected = sent', {
      ...details,
      accepted,
      duplicates,
      rejected: rejected.length,
    })
  }
  const indexes = rejected.map(({ index }) => index)
  if (indexes.join() !== content.rejected.join()) {
    run.violate('the invalid events are rejected, and no others', { ...details, indexes, expected: content.rejected })
  }
  if (batch.tries === 1 && accepted !== batch.valid) {
    run.violate('new events are accepted', { ...details, accepted, valid: batch.valid })
  }
}

/** @param {Site} site @param {{ status: number, text: string, server: Incarnation }} refusal */
function judgeRefusal({ run, disk }, { status, text, server }) {
  const code = codeOf(text)
  run.count('refusals', `${status} ${code}`)
  const isExpected = refusals.includes(code) && (code !== 'disk-full' || disk?.wasFull())
  if (!isExpected) run.violate('valid batches are refused only for a reason', { status, text, server: server.id })
}

/** @param {string} text */
export function codeOf(text) {
  try {
    return `${JSON.parse(text).code}`
  } catch {
    return 'no problem document'
  }
}
