import { setTimeout as sleep } from 'node:timers/promises'
import { isEndedByWrite } from './processes.js'

/**
 * @typedef {object} Incarnation
 * @property {string} id of the slot, with the process id
 * @property {number} port
 * @property {boolean} isEnding whether it was signalled to end or has ended; only then may its connections break
 *
 * @typedef {ReturnType<typeof createServerSlot>} ServerSlot
 */

const startMsMax = 90_000
const retryMs = 500

/**
 * One of the servers on the store: a name under which processes run one after another.
 *
 * @param {import('./run.js').Run} run
 * @param {import('./processes.js').Processes} processes
 * @param {{ name: string, args: readonly string[], note: (record: object) => void }} options
 */
export function createServerSlot(run, processes, { name, args, note }) {
  /** @type {import('./processes.js').Started | undefined} */
  let started
  const slot = {
    name,
    /** Undefined while it is down. */
    current: /** @type {Incarnation | undefined} */ (undefined),

    /** Resolves when it listens, or when it cannot be started. */
    async start() {
      const latest = Date.now() + startMsMax
      for (;;) {
        const ended = await startOnce(latest)
        if (!ended) return
        // exit code 6 is temporary: the disk is full, or a stopped process holds a lock
        if (ended.code !== 6 || Date.now() > latest) {
          run.violate('a server starts', { server: name, ...ended, log: started?.logPath })
          return
        }
        run.count('starts that failed', ended.stderr.trim().slice(0, 100))
        await sleep(retryMs)
      }
    },

    /** @param {NodeJS.Signals} signal */
    signal(signal) {
      if (!started || !slot.current) return
      if (signal === 'SIGKILL' || signal === 'SIGTERM') slot.current.isEnding = true
      note({ process: slot.current.id, signal })
      started.signal(signal)
    },

    /** Resolves when the process has ended. @param {'SIGKILL' | 'SIGTERM'} signal */
    async stop(signal) {
      const ending = started
      slot.signal(signal)
      await ending?.exited
    },
  }

  /** Resolves with its exit if it never listened. @param {number} latest */
  async function startOnce(latest) {
    const { line: firstLine, onLine } = expectLine()
    const startedAt = Date.now()
    run.count('openings', 'serve')
    const server = processes.start(['serve', '--listen', '127.0.0.1:0', '--json', ...args], { onLine })
    started = server
    const timer = setTimeout(() => {
      run.violate('a server starts in time', { server: name, log: server.logPath })
      server.signal('SIGKILL')
    }, latest - Date.now())
    const line = await Promise.race([firstLine, server.exited.then(() => undefined)])
    clearTimeout(timer)
    const { ok, port } = line === undefined ? { ok: false, port: 0 } : JSON.parse(line)
    if (!ok) return server.exited
    run.keepMax('start of a server, ms', Date.now() - startedAt)
    /** @type {Incarnation} */
    const incarnation = { id: `${name}:${server.pid}`, port, isEnding: false }
    slot.current = incarnation
    note({ process: incarnation.id, event: 'listens' })
    void server.exited.then((ended) => {
      if (slot.current === incarnation) slot.current = undefined
      note({ process: incarnation.id, event: 'ended', code: ended.code, signal: ended.signal })
      incarnation.isEnding = true
      judgeEnd(run, { id: incarnation.id, server, ended })
    })
    return undefined
  }

  return slot
}

/** The first line that `onLine` receives. */
function expectLine() {
  /** @type {(line: string) => void} */
  let onLine = () => {}
  const line = new Promise((/** @type {(line: string) => void} */ resolve) => {
    onLine = resolve
  })
  return { line, onLine }
}

/**
 * @param {import('./run.js').Run} run
 * @param {{ id: string, server: import('./processes.js').Started, ended: import('./processes.js').Ended }} end
 */
function judgeEnd(run, { id, server: { signals, logPath }, ended: { code, signal, stderr } }) {
  const details = { server: id, code, signal, sent: signals, log: logPath, stderr }
  const isEnding = signals.some((sent) => sent === 'SIGKILL' || sent === 'SIGTERM')
  if (!isEnding && isEndedByWrite({ signal, stderr })) return run.count('servers ended by a failed write', `${signal}`)
  if (!isEnding) run.violate('a server ends only when it is signalled', details)
  else if (signal !== null && !signals.includes(signal)) run.violate('no signal but those that were sent', details)
  else if (signal === null && code !== 0) run.violate('SIGTERM drains a server, which ends with 0', details)
  const fatal = stderr.split('\n').find((line) => line.startsWith('{"level":"fatal"'))
  if (fatal !== undefined) run.violate('a server logs nothing fatal', { ...details, fatal })
}
