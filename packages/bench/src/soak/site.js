/**
 * What the actors of a run share.
 *
 * @typedef {object} Site
 * @property {import('./run.js').Run} run
 * @property {import('./ledger.js').Ledger} ledger
 * @property {import('./processes.js').Processes} processes
 * @property {readonly import('./servers.js').ServerSlot[]} servers
 * @property {string} store its directory, or its URL
 * @property {boolean} isPostgres
 * @property {boolean} canSlow whether strace works here
 * @property {import('./small-disk.js').SmallDisk | undefined} disk
 * @property {Projects} projects
 * @property {Map<string, string[]>} keys by project; all of them are valid
 * @property {Retention} retention of the project `aged`
 * @property {boolean} isFull whether no new events are sent, because the store is large enough
 * @property {number} lastPlayer
 * @property {import('./map-state.js').MapState[]} maps
 */

/**
 * @typedef {object} Projects
 * @property {string} erased whose players are erased
 * @property {string} plain of which nothing is erased
 * @property {string} aged under retention
 */

/**
 * @typedef {object} Retention
 * @property {number} olderThanMs servers and commands erase what is older
 * @property {number} isErasedBefore events that were acknowledged before this time are erased
 */

/** @param {Site} site @param {string} projectId @param {import('./random.js').Random} random */
export function headersOf({ keys }, projectId, random) {
  return { 'X-Project-Id': projectId, 'X-Ingestion-Key': random.pick(keys.get(projectId) ?? []) }
}

/** A server that is up; undefined if none is. @param {Site} site @param {import('./random.js').Random} random */
export function pickServer({ servers }, random) {
  const up = servers.flatMap(({ current }) => (current && !current.isEnding ? [current] : []))
  return up.length === 0 ? undefined : random.pick(up)
}
