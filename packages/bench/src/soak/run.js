import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from './random.js'

/**
 * What all parts of one run share: its seed, its end, what it counted and what it found.
 *
 * @typedef {object} Run
 * @property {number} seed
 * @property {string} directory of the ledger, logs, backups and the report
 * @property {AbortSignal} stopping aborted when the load ends: at its time, or at the first violation
 * @property {() => void} stop
 * @property {(ms: number) => Promise<void>} pause resolves early when the load ends
 * @property {(name: string) => import('./random.js').Random} random
 * @property {(group: string, name: string | number) => void} count
 * @property {Record<string, Record<string, number>>} counts by group and name
 * @property {(name: string, value: number) => void} keepMax
 * @property {Record<string, number>} maxima
 * @property {(check: string, details: Record<string, unknown>) => void} violate records a violation and ends the load
 * @property {Violation[]} violations
 */

/** @typedef {{ check: string, at: string, [detail: string]: unknown }} Violation */

/** Later ones follow from the first ones. */
const violationsMax = 200

/**
 * @param {{ seed: number, directory: string, print?: (line: string) => void }} options `print` receives the first
 *   violations at once
 * @returns {Run}
 */
export function createRun({ seed, directory, print = console.error }) {
  const controller = new AbortController()
  // one listener for each pause
  setMaxListeners(0, controller.signal)
  /** @type {Run['counts']} */
  const counts = {}
  /** @type {Run['maxima']} */
  const maxima = {}
  /** @type {Violation[]} */
  const violations = []
  return {
    seed,
    directory,
    stopping: controller.signal,
    stop: () => controller.abort(),
    pause: (ms) => sleep(ms, undefined, { signal: controller.signal }).catch(() => {}),
    random: (name) => createRandom(seed, name),
    counts,
    count(group, name) {
      counts[group] ??= {}
      counts[group][name] = (counts[group][name] ?? 0) + 1
    },
    maxima,
    keepMax(name, value) {
      maxima[name] = Math.max(maxima[name] ?? 0, value)
    },
    violations,
    violate(check, details) {
      if (violations.length < violationsMax) violations.push({ check, at: new Date().toISOString(), ...details })
      if (violations.length <= 10) print(`VIOLATION ${JSON.stringify(violations.at(-1)).slice(0, 1000)}`)
      controller.abort()
    },
  }
}
