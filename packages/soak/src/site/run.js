import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The state that all actors of one run share: its seed, its end, counts and violations.
 *
 * @typedef {ReturnType<typeof createRun>} Run
 *
 * @typedef {ReturnType<typeof createRandom>} Random
 *
 * @typedef {{ check: string, at: string, [detail: string]: unknown }} Violation
 */

/** Later violations follow from the first ones. */
const violationsMax = 200
const printedMax = 10

/**
 * @param {object} options
 * @param {number} options.seed
 * @param {string} options.directory of the ledger, logs, backups and the report
 * @param {(line: string) => void} [options.print] receives the first violations at once
 */
export function createRun({ seed, directory, print = console.error }) {
  const controller = new AbortController()
  // each pause adds a listener
  setMaxListeners(0, controller.signal)
  /** @type {Record<string, Record<string, number>>} */
  const counts = {}
  /** @type {Record<string, number>} */
  const maxima = {}
  /** @type {Violation[]} */
  const violations = []
  return {
    seed,
    directory,
    /** Aborted when the load ends: at its time, or at the first violation. */
    stopping: controller.signal,
    stop: () => controller.abort(),
    /** Resolves early when the load ends. @param {number} ms @returns {Promise<void>} */
    pause: (ms) => sleep(ms, undefined, { signal: controller.signal }).catch(() => {}),
    random: (/** @type {string} */ name) => createRandom(seed, name),
    /** Counters by group and name. */
    counts,
    /** @param {string} group @param {string | number} name */
    count(group, name, more = 1) {
      counts[group] ??= {}
      counts[group][name] = (counts[group][name] ?? 0) + more
    },
    maxima,
    /** @param {string} name @param {number} value */
    keepMax(name, value) {
      maxima[name] = Math.max(maxima[name] ?? 0, value)
    },
    violations,
    /** Records a violation and ends the load. @param {string} check @param {Record<string, unknown>} details */
    violate(check, details) {
      if (violations.length < violationsMax) violations.push({ check, at: new Date().toISOString(), ...details })
      if (violations.length <= printedMax) print(`VIOLATION ${JSON.stringify(violations.at(-1)).slice(0, 1000)}`)
      controller.abort()
    },
  }
}

/**
 * Random decisions that a seed repeats. Each actor has a stream of its own, so that the order of actors changes no decision.
 *
 * @param {...(string | number)} names the seed, then the purpose of the decisions
 */
export function createRandom(...names) {
  let state = hashText(names.join(' '))

  // mulberry32, public domain
  function next() {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  return {
    next,
    /** Includes both bounds. @param {number} min @param {number} max */
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    /** @param {number} probability */
    chance: (probability) => next() < probability,
    /** @template T @param {readonly T[]} values @returns {T} */
    pick(values) {
      if (values.length === 0) throw new Error('there is nothing to choose from')
      return /** @type {T} */ (values[Math.floor(next() * values.length)])
    },
    /** @template T @param {readonly (readonly [T, number])[]} weights @returns {T} */
    weighted(weights) {
      let left = next() * weights.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [value, weight] of weights) {
        left -= weight
        if (left < 0) return value
      }
      throw new Error('there is nothing to choose from')
    },
  }
}

/** FNV-1a. @param {string} text */
function hashText(text) {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}
