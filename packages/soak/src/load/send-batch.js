import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyOf, contentOf } from './batch-content.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('../checks/ledger.js').Batch} Batch
 * @typedef {import('../site/servers.js').Incarnation} Incarnation
 * @typedef {{ accepted: number, duplicates: number, rejected: { index: number }[] }} Counts
 */

/** Other content under the ids of an acknowledged batch; it must change nothing. */
export const alteredVariant = 9

/** Error codes with which a healthy server may refuse a valid batch. On a busy machine, a body may arrive too slowly. */
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
 * @param {{ server: Incarnation, random: import('../site/run.js').Random, purpose: string, variant?: number }} options
 * @returns {Promise<Counts | undefined>} undefined if the response is not a 202
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

/** @param {Site} site @param {string} projectId @param {import('../site/run.js').Random} random */
export function headersOf({ keys }, projectId, random) {
  return { 'X-Project-Id': projectId, 'X-Ingestion-Key': random.pick(keys.get(projectId) ?? []) }
}

/** A server that is up; undefined if none is. @param {Site} site @param {import('../site/run.js').Random} random */
export function pickServer(site, random) {
  const up = serversUp(site)
  return up.length === 0 ? undefined : random.pick(up)
}

/** @param {Site} site */
export function serversUp({ servers }) {
  return servers.flatMap(({ current }) => (current && !current.isEnding ? [current] : []))
}

/** A retry has the content of one of the first attempts. @param {Batch} batch */
function variantOf({ variants }) {
  return variants === 0 ? 0 : 31 - Math.clz32(variants & -variants)
}

/**
 * @param {Site} site
 * @param {{ sending: import('../checks/ledger.js').Sending, content: import('./batch-content.js').Content, counts: Counts, server:
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
    const sum = { accepted, duplicates, rejected: rejected.length }
    run.violate('accepted + duplicates + rejected = sent', { ...details, ...sum })
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

/** A request without a complete response after this time counts as hung. */
const deadlineMs = 60_000

/**
 * Sends one request to a server; always resolves. Violations are a broken connection of a server that was not signalled
 * to end, a status that only a bug explains, and a hung request. The status is 0 if the response is incomplete.
 *
 * @param {import('../site/run.js').Run} run
 * @param {import('../site/servers.js').Incarnation} server
 * @param {{ method: string, path: string, headers: Record<string, string>, body?: Buffer, mayBeCut?: boolean }} options
 *   `mayBeCut` if the server must cut the response when it loses the database, or an open map is replaced, in the middle
 */
export async function request(run, server, { mayBeCut = false, ...options }) {
  const startedAt = Date.now()
  const response = await exchange(server, options)
  const elapsedMs = Date.now() - startedAt
  const { status, error, body, isCut } = response
  run.count(`${options.method} ${options.path.replace(/\?.*/, '')}`, status || `${error}`)
  if (status !== 0) run.keepMax('response, ms', elapsedMs)
  const details = { server: server.id, method: options.method, path: options.path, elapsedMs }
  if (error === 'deadline') run.violate('every request ends', details)
  else if (error !== undefined && !server.isEnding && !(isCut && mayBeCut)) {
    // connections may close shortly before the exit of the process is noticed
    await sleep(1000)
    if (!server.isEnding) run.violate('connections of a running server do not break', { ...details, error })
  } else if (status >= 500 && status !== 503) {
    const text = body.toString().slice(0, 500)
    run.violate('no response says that something is broken', { ...details, status, body: text })
  }
  return response
}

/** @param {import('../site/servers.js').Incarnation} server @param {Parameters<typeof request>[2]} options */
async function exchange({ port }, { body, ...options }) {
  const signal = AbortSignal.timeout(deadlineMs)
  let hasBegun = false
  try {
    // a new connection each time, as a server may close an idle one just when it is used again; not `fetch`, as that of
    // Node.js 20 sometimes stops reading a body and never notices the end of the connection
    const sent = httpRequest({ host: '127.0.0.1', port, agent: false, signal, ...options })
    sent.on('error', () => {})
    sent.end(body)
    const [response] = await once(sent, 'response')
    hasBegun = true
    return { status: response.statusCode, body: await buffer(response), error: undefined, isCut: false }
  } catch (error) {
    return { status: 0, body: Buffer.alloc(0), error: signal.aborted ? 'deadline' : reasonOf(error), isCut: hasBegun }
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error)
  return code ?? message
}
