// Synthetic traffic for `npm start`, which the console shows: the map of an arena, and players who walk from room to room
// in it, shoot and pick things up, about 15 events a second. Some batches are sent twice, as after a lost response, and
// some events are invalid.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@ingest/client'
import { IngestError } from '@ingest/core'

/** @typedef {{ url: string, projectId: string, key: string, buildId: string }} Target */
/** @typedef {[x: number, z: number]} Point as seen from above */

const placeId = 'arena'
const players = ['ada', 'brendan', 'chie', 'dunja', 'emeka', 'farah', 'goran', 'hana']
const tickMs = 500
const ticksPerRound = 120
/** How far a player walks in a tick. */
const stepLength = 5

// An arena of 120 by 80, with a room in each corner. Two corridors cross in its middle; a room has a door to each.
const [halfWidth, halfDepth] = [60, 40]
/** Half of the width of each corridor. */
const corridor = { x: 15, z: 8 }
const doors = { x: 36, z: 26, width: 6 }
/** @type {Point[]} */
const corners = [
  [-1, -1],
  [1, -1],
  [1, 1],
  [-1, 1],
]

/** Members that make an event invalid. */
const faults = [
  { buildId: 7 },
  { timestamp: 'yesterday' },
  { eventId: '' },
  { projectId: 'another-game' },
  { type: '' },
]

/**
 * Publishes the map of the arena, before the first event of its build freezes it.
 *
 * @param {Target} target
 * @returns {Promise<string>} the outcome
 */
export async function publishDemoMap({ buildId, ...target }) {
  const client = createClient(target)
  try {
    return (await client.publishMap({ placeId, buildId, map: { name: 'arena', parts: listParts() } })).outcome
  } catch (error) {
    // by events that an earlier run stored before it published the map
    if (error instanceof IngestError && error.code === 'map-frozen') return 'frozen'
    throw error
  } finally {
    await client.close()
  }
}

/**
 * Sends events until the signal aborts.
 *
 * @param {Target} target
 * @param {AbortSignal} signal
 */
export async function sendDemoTraffic({ buildId, ...target }, signal) {
  const client = createClient(target)
  const nextEvents = createGame({ projectId: target.projectId, buildId, placeId })
  try {
    for (let tick = 1; ; tick++) {
      const events = nextEvents(tick)
      await client.submitBatch({ events }, { signal })
      if (tick % 24 === 6) await client.submitBatch({ events }, { signal })
      await sleep(tickMs, undefined, { signal })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await client.close()
  }
}

/**
 * Returns a function that creates the events of one tick.
 *
 * @param {{ projectId: string, buildId: string, placeId: string }} build
 */
function createGame({ placeId, ...build }) {
  const serverId = `demo-${randomBytes(4).toString('hex')}`
  const walkers = players.map((playerId, i) => ({ playerId, walk: createWalker(i) }))
  let count = 0
  let round = 0

  /**
   * @param {string} type
   * @param {object} members
   */
  function event(type, members) {
    const eventId = `${serverId}-${++count}`
    return { ...build, eventId, type, timestamp: Date.now(), ...members, placeId, serverId }
  }

  return (/** @type {number} */ tick) => {
    /** @type {import('@ingest/core').IngestEvent[]} */
    const events = []
    if (tick % ticksPerRound === 1) events.push(event('round.start', { round: ++round }))
    for (const { playerId, walk } of walkers) {
      const position = walk()
      if (!position) continue
      events.push(event('player.move', { playerId, position }))
      if (Math.random() < 0.2) events.push(event('player.shoot', { playerId, position, weapon: oneOf(weapons) }))
      if (Math.random() < 0.1) events.push(event('item.pickup', { playerId, position, item: oneOf(items) }))
    }
    if (tick % ticksPerRound === 0) events.push(event('round.end', { round, winner: oneOf(players) }))
    if (tick % 20 === 4) events.push(event('player.move', oneOf(faults)))
    return events
  }
}

const weapons = ['bow', 'crossbow', 'sling']
const items = ['apple', 'arrows', 'shield']

/**
 * Returns a function that moves a player, who starts in a room, by one step. It returns undefined while the player rests.
 *
 * @param {number} start
 */
function createWalker(start) {
  let room = start % corners.length
  /** @type {Point[]} */
  let path = [pointIn(room)]
  let [x, z] = path[0] ?? [0, 0]
  let restingTicks = 0

  return () => {
    const [next] = path
    if (restingTicks > 0) restingTicks--
    if (!next) {
      if (restingTicks > 0) return undefined
      const other = (room + 1 + Math.floor(Math.random() * 3)) % corners.length
      path = [doorOf(room), near([0, 0], 8), doorOf(other), pointIn(other)]
      room = other
      return undefined
    }
    const [left, ahead] = [next[0] - x, next[1] - z]
    const distance = Math.hypot(left, ahead)
    const part = Math.min(1, stepLength / (distance || 1))
    x += left * part
    z += ahead * part
    if (distance <= stepLength) path.shift()
    if (path.length === 0) restingTicks = Math.floor(Math.random() * 12)
    return { x: round2(x), y: 3, z: round2(z) }
  }
}

/** @param {number} room */
function pointIn(room) {
  const [east, south] = corners[room] ?? [1, 1]
  return near([38 * east, 24 * south], 16)
}

/** @param {number} room */
function doorOf(room) {
  const [east, south] = corners[room] ?? [1, 1]
  const isSide = Math.random() < 0.5
  return near([(isSide ? corridor.x : doors.x) * east, (isSide ? doors.z : corridor.z) * south], 3)
}

/**
 * @param {Point} point
 * @param {number} width
 * @returns {Point}
 */
function near([x, z], width) {
  return [x + (Math.random() - 0.5) * width, z + (Math.random() - 0.5) * width]
}

/**
 * @template T
 * @param {readonly T[]} list
 */
function oneOf(list) {
  return /** @type {T} */ (list[Math.floor(Math.random() * list.length)])
}

/** @param {number} value */
function round2(value) {
  return Math.round(value * 100) / 100
}

/** The parts of the map, which is the same in every run. */
function listParts() {
  return [
    wall('north', [-halfWidth, -halfDepth], [halfWidth, -halfDepth]),
    wall('south', [-halfWidth, halfDepth], [halfWidth, halfDepth]),
    wall('west', [-halfWidth, -halfDepth], [-halfWidth, halfDepth]),
    wall('east', [halfWidth, -halfDepth], [halfWidth, halfDepth]),
    ...corners.flatMap(([east, south], i) => roomParts(`room ${i + 1}`, east, south)),
    part('flag', [0, 0], [2, 2], 20),
  ]
}

/**
 * The walls of a room towards the corridors, each with a door, and crates.
 *
 * @param {string} name
 * @param {number} east
 * @param {number} south
 */
function roomParts(name, east, south) {
  const gap = doors.width / 2
  /** @type {(x: number, z: number) => Point} */
  const at = (x, z) => [x * east, z * south]
  return [
    wall(name, at(corridor.x, corridor.z), at(corridor.x, doors.z - gap)),
    wall(name, at(corridor.x, doors.z + gap), at(corridor.x, halfDepth)),
    wall(name, at(corridor.x, corridor.z), at(doors.x - gap, corridor.z)),
    wall(name, at(doors.x + gap, corridor.z), at(halfWidth, corridor.z)),
    part(`crates of ${name}`, at(54, 35), [6, 4], 4),
    part(`crate of ${name}`, at(24, 36), [3, 3], 3),
  ]
}

/**
 * @param {string} name
 * @param {Point} from
 * @param {Point} to
 */
function wall(name, [x1, z1], [x2, z2]) {
  return part(`wall of ${name}`, [(x1 + x2) / 2, (z1 + z2) / 2], [Math.abs(x2 - x1) + 1, Math.abs(z2 - z1) + 1], 12)
}

/**
 * @param {string} name
 * @param {Point} center
 * @param {[width: number, depth: number]} size
 * @param {number} height
 */
function part(name, [x, z], [width, depth], height) {
  return { name, position: { x, y: height / 2, z }, size: { x: width, y: height, z: depth } }
}
