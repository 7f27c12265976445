import { readdirSync, readFileSync } from 'node:fs'

/**
 * The role of a thread. `helpers` are threads of V8 and libuv; `database` is PostgreSQL or NATS.
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
 * @property {readonly number[]} helpers the threads that it had before it started its own
 * @property {number | undefined} [database] the main process of PostgreSQL or NATS, the parent of its others
 */

/** The priorities of Ingest's background threads. Its other threads have the default. */
const [indexNice, chunksNice] = [4, 5]
const msPerTick = 10

/** The threads of a process; none without /proc. @param {number} pid */
export function threadsOf(pid) {
  return numbersIn(`/proc/${pid}/task`)
}

/**
 * The processor time that a process has used so far, in milliseconds by the role of its threads. Undefined without /proc.
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
      // the writer is the first thread that Ingest starts
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
 * The processor time between two readings, in microseconds per event.
 *
 * @param {ProcessorTime | undefined} before @param {ProcessorTime | undefined} after @param {number} events
 * @returns {ProcessorTime | undefined}
 */
export function processorTimePerEvent(before, after, events) {
  if (!before || !after) return undefined
  const roles = /** @type {Role[]} */ (Object.keys(after))
  return Object.fromEntries(roles.map((role) => [role, (((after[role] ?? 0) - (before[role] ?? 0)) * 1000) / events]))
}

/** The sum over all threads. @param {ProcessorTime | undefined} time */
export function totalOf(time) {
  return time && Object.values(time).reduce((sum, each) => sum + each, 0)
}

/** The processor time of all ended children of this process, in milliseconds. */
export function endedChildrenMs() {
  return readStat('/proc/self')?.childrenMs ?? 0
}

/** The processor time of a process and its children, ended ones too. @param {number} pid */
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
    // the name in parentheses before the fields may contain anything
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
    // the process or thread has ended
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
