import { alteredVariant, codeOf, headersOf, pickServer, request, sendBatch, serversUp } from './send-batch.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('../site/run.js').Random} Random
 * @typedef {{ server: import('../site/servers.js').Incarnation, random: Random }} Options
 */

const activePlayers = 12
const sharedBuilds = 40
const recentBatches = 50
const recheckEveryMs = 500
const recheckedMax = 500
const recheckConcurrency = 8

/**
 * Sends to one server until the load ends: new batches, batches without a response, and repeats of acknowledged ones.
 *
 * @param {Site} site
 * @param {import('../site/servers.js').ServerSlot} slot
 * @param {string} name
 */
export async function runSender(site, slot, name) {
  const { run, ledger } = site
  const random = run.random(name)
  while (!run.stopping.aborted) {
    const server = slot.current
    if (!server || server.isEnding) {
      await run.pause(20)
      continue
    }
    const options = { server, random }
    const counts = await sendSomething()
    if (!counts) await run.pause(random.integer(20, 200))

    async function sendSomething() {
      if (ledger.unknown.length > 0 && random.chance(0.5)) return sendUnknown(site, { ...options, purpose: 'retry' })
      const kind = random.weighted([
        ['new', site.isFull ? 0 : 66],
        ['both', site.isFull ? 0 : 5],
        ['void', 3],
        ['recent', 14],
        ['old', 10],
      ])
      if (kind === 'new') return sendBatch(site, newBatch(site, random), { ...options, purpose: 'new' })
      if (kind === 'both') return sendToBoth(site, options)
      if (kind === 'void') return sendVoid(site, options)
      return repeat(site, { ...options, kind })
    }
  }
}

/** @param {Site} site @param {Random} random */
function newBatch(site, random) {
  const { erased, plain, aged } = site.projects
  const projectId = random.weighted([
    [erased, 5],
    [plain, 4],
    [aged, 1],
  ])
  const player = site.lastPlayer + random.integer(1, activePlayers)
  // players of the other projects have numbers that are never erased
  const isErasable = projectId === erased
  const buildId = `build-${random.integer(1, sharedBuilds)}`
  return site.ledger.addBatch({ projectId, player: isErasable ? player : -player, buildId })
}

/** Repeats a batch whose outcome is unknown. @param {Site} site @param {Options & { purpose: string }} options */
async function sendUnknown(site, options) {
  const batch = site.ledger.unknown.shift()
  if (!batch || batch.acknowledgedAt < Infinity || site.ledger.players.get(batch.player)?.isRetired)
    return { accepted: 0 }
  return sendBatch(site, batch, options)
}

/** Sends two contents under the same ids to all servers at once; each event is accepted once. @param {Site} site @param {Options} options */
async function sendToBoth(site, { server, random }) {
  const batch = newBatch(site, random)
  const up = serversUp(site)
  const targets = up.length === 0 ? [server] : up
  const sendings = targets.map((target, i) =>
    sendBatch(site, batch, { server: target, random, purpose: 'both', variant: i + 1 }),
  )
  const results = await Promise.all(sendings)
  const total = results.reduce((sum, counts) => sum + (counts?.accepted ?? 0), 0)
  if (results.every((counts) => counts !== undefined) && total !== batch.valid) {
    site.run.violate('of concurrent requests with an event, one is accepted', {
      batch: batch.number,
      accepted: results.map((counts) => counts?.accepted),
      valid: batch.valid,
    })
  }
  return results[0]
}

/** @param {Site} site @param {Options & { kind: string }} options */
async function repeat(site, { server, random, kind }) {
  const { acknowledged } = site.ledger
  if (acknowledged.length === 0) return sendBatch(site, newBatch(site, random), { server, random, purpose: 'new' })
  const last = acknowledged.length - 1
  const index = kind === 'recent' ? random.integer(Math.max(0, last - recentBatches), last) : random.integer(0, last)
  const batch = /** @type {import('../checks/ledger.js').Batch} */ (acknowledged[index])
  const altered = random.chance(0.3) && { variant: alteredVariant }
  return sendBatch(site, batch, { server, random, purpose: kind, ...altered })
}

/** Sends a request of which nothing may be stored. @param {Site} site @param {Options} options */
async function sendVoid(site, { server, random }) {
  const projectId = site.projects.plain
  const event = `{"projectId":"${projectId}","eventId":"void-${random.integer(0, 1e9)}"}`
  const kind = random.pick(['credentials', 'body', 'events'])
  const headers = { 'Content-Type': 'application/json', ...headersOf(site, projectId, random) }
  if (kind === 'credentials') headers['X-Ingestion-Key'] = `${headers['X-Ingestion-Key'].slice(0, -1)}!`
  const events = kind === 'events' ? Array(101).fill(event).join(',') : event
  const body = Buffer.from(`{"events":[${events}]${kind === 'body' ? '' : '}'}`)
  const expected = { credentials: 401, body: 400, events: 413 }[kind]
  site.ledger.note({ process: server.id, void: kind, event })
  const response = await request(site.run, server, { method: 'POST', path: '/v1/events/batch', headers, body })
  const { status } = response
  if (![0, expected, 408, 503].includes(status)) {
    const text = response.body.toString().slice(0, 500)
    site.run.violate('an invalid request is refused', { kind, status, code: codeOf(text), text })
  }
  return status === expected ? { accepted: 0 } : undefined
}

/**
 * Soon sends each acknowledged batch again, whose events must all be duplicates. Sends it to every server, because the
 * one that stored it may know its ids from memory.
 *
 * @param {Site} site
 */
export async function runRechecks(site) {
  await Promise.all(site.servers.map((slot) => runRechecksOf(site, slot)))
}

/** @param {Site} site @param {import('../site/servers.js').ServerSlot} slot */
async function runRechecksOf(site, slot) {
  const { run, ledger } = site
  const { acknowledged } = ledger
  const random = run.random(`recheck ${slot.name}`)
  let next = 0
  while (!run.stopping.aborted) {
    await run.pause(recheckEveryMs)
    const server = slot.current
    if (!server || server.isEnding) continue
    const batches = acknowledged.slice(Math.max(next, acknowledged.length - recheckedMax))
    if (acknowledged.length > 0) batches.push(random.pick(acknowledged))
    next = acknowledged.length
    const sendNext = async () => {
      for (let batch = batches.pop(); batch && !run.stopping.aborted && !server.isEnding; batch = batches.pop()) {
        await sendBatch(site, batch, { server, random, purpose: 'recheck', ...alteredOrNot(random) })
      }
    }
    await Promise.all(Array.from({ length: recheckConcurrency }, sendNext))
  }
}

/**
 * Sends the last acknowledged batches again, and some older ones, to any server.
 *
 * @param {Site} site
 * @param {{ random: Random, last: number, older: number, purpose: string }} options how many batches of each kind
 */
export async function recheck(site, { random, last, older, purpose }) {
  const { acknowledged } = site.ledger
  const batches = acknowledged.slice(-last)
  for (let i = 0; i < older && acknowledged.length > 0; i++) batches.push(random.pick(acknowledged))
  await Promise.all(
    batches.map((batch) => {
      const server = pickServer(site, random)
      return server && sendBatch(site, batch, { server, random, purpose, ...alteredOrNot(random) })
    }),
  )
}

/** @param {Random} random */
function alteredOrNot(random) {
  return random.chance(0.2) ? { variant: alteredVariant } : {}
}
