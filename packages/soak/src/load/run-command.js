import { isEndedByWrite } from '../site/processes.js'

/**
 * @typedef {object} Result
 * @property {number | null} code null if a signal ended it
 * @property {any} json the object that `--json` printed last, or undefined
 * @property {boolean} isDone exit code 0
 * @property {string} stderr
 */

/**
 * @typedef {object} Options
 * @property {import('../site/run.js').Random} [random] without it, nothing disturbs the command
 * @property {readonly number[]} [allowed] exit codes besides 0 and 6
 * @property {(line: string) => void} [onLine]
 * @property {Record<string, string>} [env]
 * @property {number} [killProbability]
 * @property {number} [slowProbability]
 */

/** On a busy machine, an export of a long run takes minutes; `verify` has a low priority and takes 15 minutes. */
const deadlineMs = 1_800_000
const slowMicroseconds = [300, 1000, 3000, 10_000]
const killAfterMsMax = 1500
/** The exit code for temporary errors: a full disk, a lock that a stopped process holds, a server that is gone. */
const temporary = 6

/**
 * Runs one command beside the servers. Some commands are slowed, some killed, some stopped for a moment.
 *
 * @param {import('../site/site.js').Site} site
 * @param {readonly string[]} args
 * @param {Options} [options]
 * @returns {Promise<Result>}
 */
export async function runCommand({ run, processes, ledger, canSlow }, args, options = {}) {
  const { random, allowed = [], onLine, env, killProbability = 0.2, slowProbability = 0.4 } = options
  const slow = canSlow && random?.chance(slowProbability) && { slowMicroseconds: random.pick(slowMicroseconds) }
  const startedAt = Date.now()
  const command = processes.start(args, { ...slow, ...(onLine && { onLine }), ...(env && { env }) })
  run.count('openings', slow ? `${command.name}, slowed` : command.name)
  const deadline = setTimeout(() => {
    run.violate('every command ends', { args, log: command.logPath })
    command.signal('SIGKILL')
  }, deadlineMs)
  const timers = random ? disturb(command, { random, killProbability, isTraced: Boolean(slow) }) : []
  const { code, signal, stdout, stderr } = await command.exited
  for (const timer of [deadline, ...timers]) clearTimeout(timer)
  const isDisturbed = command.signals.some((sent) => sent === 'SIGKILL' || sent === 'SIGTERM')
  ledger.note({ command: args.join(' '), process: command.pid, ms: Date.now() - startedAt, code, signal })
  run.count('commands', `${command.name}: ${signal ?? code}`)
  const isExpected =
    code === 0 || code === temporary || allowed.includes(code ?? -1) || isEndedByWrite({ signal, stderr })
  const isEnded = isDisturbed && (signal === null ? code === 143 : command.signals.includes(signal))
  if (!isExpected && !isEnded) {
    const check = signal === null ? 'a command ends with an expected exit code' : 'no signal but those that were sent'
    run.violate(check, { args, code, signal, sent: command.signals, stdout: stdout.slice(0, 2000), stderr, slow })
  } else if (code === temporary) run.count('temporary failures', `${command.name}: ${stderr.trim().slice(0, 120)}`)
  return { code, json: lastObject(stdout), isDone: code === 0, stderr }
}

/**
 * @param {import('../site/processes.js').Started} command
 * @param {{ random: import('../site/run.js').Random, killProbability: number, isTraced: boolean }} options `isTraced`:
 *   strace may leave a stopped process behind after a signal other than SIGKILL
 */
function disturb(command, { random, killProbability, isTraced }) {
  const afterMs = random.integer(0, killAfterMsMax)
  if (random.chance(killProbability)) {
    const signal = random.weighted([
      [/** @type {NodeJS.Signals} */ ('SIGKILL'), 4],
      [/** @type {NodeJS.Signals} */ ('SIGTERM'), isTraced ? 0 : 1],
    ])
    return [setTimeout(() => command.signal(signal), afterMs)]
  }
  const stoppedMs = random.integer(50, 1500)
  if (isTraced || !random.chance(0.1)) return []
  setTimeout(() => command.signal('SIGCONT'), afterMs + stoppedMs)
  return [setTimeout(() => command.signal('SIGSTOP'), afterMs)]
}

/** @param {string} stdout */
function lastObject(stdout) {
  const line = stdout.trimEnd().split('\n').at(-1) ?? ''
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
