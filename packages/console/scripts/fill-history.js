import { parseArgs } from 'node:util'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'

// Fills a store with a history of days, as if two servers had received it, and prints keys for it:
//
//   node packages/console/scripts/fill-history.js DIRECTORY [--events 4000000] [--days 3] [--builds 40]
//     [--end 2026-11-20T18:00:00Z] [--project demo]
//   npx @ingest/cli serve --store DIRECTORY --console
//
// Builds of which each replaces the one before, players whose sessions play one build in one place, places with maps,
// and two spots where players die. 1.42.1 adds two traps, which kill beside the deaths at these spots; with it, one
// sender begins to send purchases without a valid player, and vehicle.exit stops. The same end makes the same events.

const { values, positionals } = parseArgs({
  options: {
    events: { type: 'string', default: '4000000' },
    days: { type: 'string', default: '3' },
    builds: { type: 'string', default: '40' },
    end: { type: 'string', default: new Date().toISOString() },
    project: { type: 'string', default: 'demo' },
  },
  allowPositionals: true,
})
const [directory] = positionals
if (directory === undefined) throw new Error('Name the directory of a new store.')
const projectId = values.project
const eventsMax = Number(values.events)
const minuteMs = 60_000
const batchEvents = 100

const endAt = Math.floor(Date.parse(values.end) / minuteMs) * minuteMs
const startAt = endAt - Number(values.days) * 86_400_000
const minutes = (endAt - startAt) / minuteMs
let time = startAt

const store = await openLmdbStore(directory)
const open = (/** @type {string} */ server, ownStore = store) =>
  createIngest({ store: ownStore, now: () => time, server, rejected: { keepEvents: true } })
const first = open('eu-1:8787')
const second = open('us-1:8787', { ...store, close: async () => {} })
const reader = await first.keys.create(projectId, { scopes: ['read'], name: 'Console' })
const createSender = (/** @type {string} */ name) => first.keys.create(projectId, { scopes: ['events:write'], name })
const senders = [
  { project: first.project(projectId), ...(await createSender('EU servers')) },
  { project: second.project(projectId), ...(await createSender('US servers')) },
]

/** The minimal standard generator of Park and Miller. */
let state = 7
function random() {
  state = (state * 16_807) % 2_147_483_647
  return state / 2_147_483_647
}

/** @param {number} below */
const randomInteger = (below) => Math.floor(random() * below)
/** @template T @param {readonly T[]} values @returns {T} */
const oneOf = (values) => /** @type {T} */ (values[randomInteger(values.length)])
/** About normally distributed. @param {number} centre @param {number} width */
const around = (centre, width) => centre + (random() + random() + random() - 1.5) * width

const lastBuilds = ['1.42.1', '1.42.2', '1.43.0', '1.43.1']
const firstMinor = 43 - Number(values.builds) + lastBuilds.length
const earlierBuilds = Array.from({ length: 43 - firstMinor }, (_, i) => `1.${firstMinor + i}.0`)
const builds = [...earlierBuilds, ...lastBuilds].map((buildId, i, { length }) => {
  return { buildId, releasedAt: startAt + (i * (endAt - startAt)) / length }
})
const brokenAt = builds.findIndex(({ buildId }) => buildId === '1.42.1')

const places = ['town', 'harbour', 'mines']
/** Where players die, x and z. @type {readonly [number, number][]} */
const hotSpots = [
  [-180, -120],
  [120, 60],
]
/** Where they also die from the broken build on. @type {readonly [number, number][]} */
const traps = [
  [260, -200],
  [-60, 180],
]
const types = ['round.start', 'player.join', 'shot.fired', 'shot.fired', 'shot.fired', 'player.move', 'item.pickup']
types.push('vehicle.enter', 'vehicle.exit', 'shop.purchase', 'round.end', ...Array(4).fill('player.death'))

// as many events a player in a short history as in a long one, so that sessions end
const players = Array.from({ length: Math.ceil(eventsMax / 2_000) }, (_, i) => {
  return { id: i, session: 0, build: 0, placeId: 'town', x: 0, z: 0 }
})

/** Before the first event of the build. @param {string} buildId @param {number} index */
async function publishMaps(buildId, index) {
  for (const placeId of places) {
    const tower = index >= brokenAt ? [{ name: 'tower', position: [260, 30, -200], size: [40, 60, 40] }] : []
    const houses = Array.from({ length: 24 }, (_, i) => ({
      name: 'house',
      position: [-450 + (i % 6) * 180, 10, -300 + Math.floor(i / 6) * 200],
      size: [40 + ((i * 7 + index) % 20), 20, 30],
    }))
    const parts = [{ name: 'ground', position: [0, 1, 0], size: [1_024, 2, 768] }, ...tower, ...houses]
    await first.project(projectId).publishMap({ placeId, buildId, map: { name: placeId, parts } })
  }
}

/** Most players have the newest build, some an older one. @param {number} released */
function chooseBuild(released) {
  let index = released
  while (index > 0 && random() < 0.3) index--
  return index
}

let sent = 0
/** @param {number} released @param {number} server */
function makeEvent(released, server) {
  const player = /** @type {(typeof players)[number]} */ (players[Math.floor(random() ** 2 * players.length)])
  if (player.session === 0 || random() < 0.03) {
    player.session++
    player.build = chooseBuild(released)
    player.placeId = oneOf(places)
  }
  const { build } = player
  const isBroken = build >= brokenAt
  const spot = oneOf([...hotSpots, ...traps])
  let type = oneOf(types)
  if (type === 'vehicle.exit' && released >= brokenAt) type = 'vehicle.enter'
  // a build without the trap has no deaths there
  if (type === 'player.death' && traps.includes(spot) && !isBroken) type = 'player.move'
  if (type === 'player.death') {
    const [x, z] = spot
    player.x = around(x, 60)
    player.z = around(z, 60)
  } else {
    player.x = Math.max(-500, Math.min(500, around(player.x, 40)))
    player.z = Math.max(-370, Math.min(370, around(player.z, 40)))
  }
  const event = {
    projectId,
    eventId: `${server}-${(sent++).toString(36)}`,
    type,
    timestamp: time,
    buildId: builds[build]?.buildId,
    placeId: player.placeId,
    sessionId: `player-${player.id}-${player.session}`,
    serverId: `game-${server}-${player.id % 20}`,
    playerId: `player-${player.id}`,
    position: { x: Math.round(player.x * 10) / 10, y: randomInteger(3) * 10, z: Math.round(player.z * 10) / 10 },
    properties: { score: randomInteger(1000), weapon: oneOf(['bow', 'sword', 'none']) },
  }
  if (server === 0 && type === 'item.pickup' && random() < 0.02) return { ...event, placeId: [event.placeId] }
  const isWrongPurchase = isBroken && server === 1 && type === 'shop.purchase'
  return isWrongPurchase ? { ...event, playerId: { id: event.playerId } } : event
}

/** More in the evening than in the morning. @param {number} at */
const loadAt = (at) => 1 + 0.6 * Math.sin((2 * Math.PI * (at % 86_400_000)) / 86_400_000 - Math.PI / 2)

let released = -1
let due = 0
let batchesSent = 0

async function sendBatch() {
  const server = batchesSent++ % 2
  const { project, record } = /** @type {(typeof senders)[number]} */ (senders[server])
  const events = Array.from({ length: batchEvents }, () => makeEvent(released, server))
  await project.submitBatch(Buffer.from(JSON.stringify({ events })), { mayTransfer: true, keyId: record.keyId })
}

const begunAt = performance.now()
for (let minute = 0; minute < minutes && sent < eventsMax; minute++) {
  time = startAt + minute * minuteMs
  for (let next = builds[released + 1]; next && next.releasedAt <= time; next = builds[released + 1]) {
    released++
    await publishMaps(next.buildId, released)
  }
  due += (eventsMax / minutes) * loadAt(time)
  const isLast = minute === minutes - 1
  const batches = isLast ? Math.ceil((eventsMax - sent) / batchEvents) : Math.floor((due - sent) / batchEvents)
  for (let done = 0; done < batches; done += 8) {
    time = startAt + minute * minuteMs + Math.floor((done / batches) * minuteMs)
    await Promise.all(Array.from({ length: Math.min(8, batches - done) }, sendBatch))
  }
  if (minute % 60 === 0) process.stderr.write(`\r${sent} events, ${new Date(time).toISOString()}`)
}
time = endAt
// the first closes the store
await second.close()
await first.close()
console.log(`\n${sent} events in ${Math.round((performance.now() - begunAt) / 1000)} s`)
console.log(`INGEST_PROJECT_ID=${projectId}`)
console.log(`INGEST_KEY=${reader.key} # read`)
for (const { key } of senders) console.log(`# a sender: ${key}`)
