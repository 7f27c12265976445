import { readdirSync, readFileSync } from 'node:fs'

/**
 * What a thread is for. `helpers` are those of V8 and libuv, and `database` is PostgreSQL.
 *
 * @typedef {'main' | 'writer' | 'index' | 'chunks' | 'helpers' | 'others' | 'database'} Role
 *
 * @typedef {Partial<Record<Role, number>>} ProcessorTime
 */

/**
 * A process whose threads can be distinguished.
 *
 * @typedef {object} Watched
 * @property {number} pid
 * @property {readonly number[]} helpers its threads before it started any of its own
 * @property {number | undefined} [database] the process of PostgreSQL that started all others of it
 */

/** Ingest gives its threads in the background these priorities, and no others. */
const [indexNice, chunksNice] = [4, 5]
const msPerTick = 10

/** The threads of a process; none where there is no /proc. @param {number} pid */
export function threadsOf(pid) {
  return numbersIn(`/proc/${pid}/task`)
}

/**
 * The processor time that a process has used by now, in milliseconds, by what its threads are for. Undefined where there
 * is no /proc.
 *
 * @param {Watched} watched
 * @returns {ProcessorTime | undefined}
 */
export function readProcessorTime({ pid, helpers, database }) {
  const main = readStat(`/proc/${pid}/task/${pid}`)
  if (!main) return undefined
  /** @type {ProcessorTime} */
  const time = { main: main.ms }
  let hasWriter = false
  const add = (/** @type {Role} */ role, /** @type {number} */ ms) => {
    time[role] = (time[role] ?? 0) + ms
  }
  for (const thread of threadsOf(pid)) {
    const stat = thread === pid ? undefined : readStat(`/proc/${pid}/task/${thread}`)
    if (!stat) continue
    if (helpers.includes(thread)) add('helpers', stat.ms)
    else if (stat.nice === main.nice && !hasWriter) {
      // the writer is started first
      hasWriter = true
      add('writer', stat.ms)
    } else if (stat.nice === indexNice) add('index', stat.ms)
    else if (stat.nice === chunksNice) add('chunks', stat.ms)
    else add('others', stat.ms)
  }
  if (database !== undefined) time.database = readFamily(database)
  return time
}

/**
 * What was used between two readings, in microseconds an event.
 *
 * @param {ProcessorTime | undefined} before @param {ProcessorTime | undefined} after @param {number} events
 * @returns {ProcessorTime | undefined}
 */
export function processorTimePerEvent(before, after, events) {
  if (!before || !after) return undefined
  const roles = /** @type {Role[]} */ (Object.keys(after))
  return Object.fromEntries(roles.map((role) => [role, (((after[role] ?? 0) - (before[role] ?? 0)) * 1000) / events]))
}

/** Over all threads. @param {ProcessorTime | undefined} time */
export function totalOf(time) {
  return time && Object.values(time).reduce((sum, each) => sum + each, 0)
}

/** The milliseconds of all children of this process that have ended. */
export function endedChildrenMs() {
  return readStat('/proc/self')?.childrenMs ?? 0
}

/** A process and its children, also those that have ended. @param {number} pid */
function readFamily(pid) {
  const stats = numbersIn('/proc').flatMap((each) => readStat(`/proc/${each}`) ?? [])
  return stats.reduce((sum, stat) => {
    if (stat.pid === pid) return sum + stat.ms + stat.childrenMs
    return stat.parent === pid ? sum + stat.ms : sum
  }, 0)
}

/** See proc_pid_stat(5). @param {string} path of a process or a thread */
function readStat(path) {
  try {
    const text = readFileSync(`${path}/stat`, 'latin1')
    // the name before it, in parentheses, may contain anything
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const at = (/** @type {number} */ field) => Number(fields[field - 3])
    return {
      pid: Number.parseInt(text, 10),
      parent: at(4),
      ms: (at(14) + at(15)) * msPerTick,
      childrenMs: (at(16) + at(17)) * msPerTick,
      nice: at(19),
    }
  } catch {
    // it has ended meanwhile
    return undefined
  }
}

/** @param {string} directory @returns {number[]} ascending */
function numbersIn(directory) {
  try {
    return readdirSync(directory)
      .map(Number)
      .filter((number) => number > 0)
      .sort((x, y) => x - y)
  } catch {
    return []
  }
}
