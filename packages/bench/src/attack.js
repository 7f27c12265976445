import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { scenarios } from './attack/scenarios.js'
import { createCredentials, startServer } from './attack/start-server.js'
import { startProgram } from './contenders/start-program.js'
import { parseCount } from './plan.js'
import { formatNumber, formatTable } from './report/format.js'
import { summarize, summarizeRatios } from './report/statistics.js'

/**
 * @typedef {import('./attack/scenarios.js').Scenario} Scenario
 * @typedef {import('./attack/scenarios.js').Phase} Phase
 * @typedef {import('./attack/honest.js').Honest} Honest
 * @typedef {Honest & { attacked: import('./attack/attacker.js').Attacked, longestTurnMs: number, phase: string }} Measured
 * @typedef {{ rounds: number, seconds: number, senders: number, keys: number }} Options
 */

const names = scenarios.map(({ name }) => name)
const help = `pnpm attack [${names.join('|')}] …   attacks the built "ingest serve" on this machine; all without a name

  --rounds <n>    how many times each attack runs (default 3)
  --seconds <n>   how long each attack is measured (default 5)
  --senders <n>   honest projects (default 1). One sends 9,500 events a second at most, just under its rate limit;
                  16 keep the server busy, so that every loss shows
  --keys <n>      attacking keys, each with all of the connections (default 1)

Shares are of what the honest senders reach in the first line of each table, in the median of the rounds.`

const options = /** @type {const} */ ({
  help: { type: 'boolean' },
  rounds: { type: 'string', default: '3' },
  seconds: { type: 'string', default: '5' },
  senders: { type: 'string', default: '1' },
  keys: { type: 'string', default: '1' },
})

const warmupSeconds = 1
/** How long a server may take to recover from an attack. */
const settleMsMax = 120_000
/** How long an attack runs before the server is drained. */
const drainAfterMs = 1000

/** @type {Record<string, (result: Measured) => number>} */
const columns = {
  'batch p50 ms': ({ batch }) => batch.p50Ms,
  'p99 ms': ({ batch }) => batch.p99Ms,
  'max ms': ({ batch }) => batch.maxMs,
  '/livez p99 ms': ({ livez }) => livez.p99Ms,
  '/livez max ms': ({ livez }) => livez.maxMs,
  'longest turn ms': ({ longestTurnMs }) => longestTurnMs,
}

process.exit(await main(process.argv.slice(2).filter((arg) => arg !== '--')))

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function main(args) {
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options })
    if (values.help) {
      console.log(help)
      return 0
    }
    const unknown = positionals.find((name) => !names.includes(name))
    if (unknown !== undefined) throw new Error(`there is no "${unknown}": ${names.join(', ')}`)
    const chosen = scenarios.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
    const plan = {
      rounds: parseCount(values.rounds),
      seconds: parseCount(values.seconds),
      senders: parseCount(values.senders),
      keys: parseCount(values.keys),
    }
    if (Math.min(...Object.values(plan)) < 1) throw new Error('rounds, seconds, senders and keys are at least 1')
    for (const scenario of chosen) await runScenario(scenario, plan)
    return 0
  } catch (error) {
    console.error(`no figures: ${error instanceof Error ? error.message : error}`)
    return 1
  }
}

/** @param {Scenario} scenario @param {Options} plan */
async function runScenario(scenario, plan) {
  const directory = await mkdtemp(join(tmpdir(), 'ingest-attack-'))
  const remove = () => rmSync(directory, { recursive: true, force: true })
  process.once('exit', remove)
  const stop = () => process.exit(130)
  process.once('SIGINT', stop)
  try {
    const store = join(directory, 'store')
    if (scenario.events !== undefined) await storeEvents(store, scenario.events)
    const attackers = []
    const honest = []
    const rounds = []
    for (let i = 0; i < plan.keys; i++) attackers.push(await createCredentials(store, `attacker-${i}`))
    for (let i = 0; i < plan.senders; i++) honest.push(await createCredentials(store, `honest-${i}`))
    for (let round = 0; round < plan.rounds; round++) {
      console.error(`${scenario.name}: round ${round + 1} of ${plan.rounds}`)
      rounds.push(await runRound(scenario, plan, { store, attackers, honest }))
    }
    console.log(`\n${report(scenario, rounds)}\n`)
  } finally {
    process.off('SIGINT', stop)
    process.off('exit', remove)
    remove()
  }
}

/** Fills the project of the first attacker. @param {string} directory @param {number} events */
async function storeEvents(directory, events) {
  const program = await startProgram(new URL('../servers/ours.js', import.meta.url), {
    directory,
    projectId: 'attacker-0',
  })
  await program.call('preload', { events })
  await program.stop()
}

/**
 * @param {Scenario} scenario
 * @param {Options} plan
 * @param {{ store: string, attackers: Record<string, string>[], honest: Record<string, string>[] }} site
 */
async function runRound({ phases, eventsPerBatch, hasChunk, drainUnder }, { seconds }, { store, attackers, honest }) {
  const server = await startServer(store)
  const programs = []
  try {
    const { port } = server
    const attacks = await startProgram(new URL('attack/attacker.js', import.meta.url), {
      port,
      credentials: attackers,
      neighbour: honest[0],
    })
    programs.push(attacks)
    const senders = await startProgram(new URL('attack/honest.js', import.meta.url), {
      port,
      credentials: honest,
      eventsPerBatch,
    })
    programs.push(senders)
    if (hasChunk) await attacks.call('prepareChunk')
    // warm up the server, so that the first phase is not slower than the others
    await senders.call('connect')
    await senders.call('measure', { seconds, warmupSeconds })
    /** @type {Measured[]} */
    const measured = []
    for (const phase of phases) {
      const result = await runPhase(phase, { server, attacks, senders, seconds })
      const settleMs = await untilSettled(port)
      measured.push({ ...result, phase: phase.title })
      console.error(`  ${phase.title}: ${describe(result)}, settled in ${formatNumber(settleMs)} ms`)
    }
    const under = phases.find(({ title }) => title === drainUnder)
    if (under) await attacks.call('begin', under.attack)
    if (under) await sleep(drainAfterMs)
    return { measured, drainMs: await server.drain() }
  } finally {
    server.kill()
    for (const program of programs) await program.kill()
  }
}

/**
 * @param {Phase} phase
 * @param {{ server: import('./attack/start-server.js').Server, attacks: import('./contenders/start-program.js').Program, senders:
 *   import('./contenders/start-program.js').Program, seconds: number }} run
 */
async function runPhase({ attack }, { server, attacks, senders, seconds }) {
  // a burst begins during the measurement, a continuous attack before the warm-up
  const isOnce = attack?.attack === 'burst'
  const begin = () => (attack ? attacks.call('begin', attack) : undefined)
  // honest game servers are connected before an attack
  await senders.call('connect')
  if (!isOnce) await begin()
  await server.longestTurn()
  const measuring = senders.call('measure', { seconds, warmupSeconds })
  if (isOnce) {
    await sleep(warmupSeconds * 1000 + 200)
    await begin()
  }
  /** @type {Honest} */
  const result = await measuring
  return { ...result, longestTurnMs: await server.longestTurn(), attacked: await attacks.call('end') }
}

/** Resolves with the time until /livez responds quickly several times in a row. @param {number} port */
async function untilSettled(port) {
  const start = performance.now()
  for (let quick = 0; quick < 5; ) {
    const before = performance.now()
    const response = await fetch(`http://127.0.0.1:${port}/livez`, { signal: AbortSignal.timeout(settleMsMax) })
    await response.arrayBuffer()
    const now = performance.now()
    quick = now - before < 50 ? quick + 1 : 0
    if (now - start > settleMsMax) throw new Error('the server does not recover from the attack')
    await sleep(20)
  }
  return performance.now() - start
}

/** @param {Omit<Measured, 'phase'>} result */
function describe({ eventsPerSecond, refusals, livez, unanswered, attacked }) {
  const responses = Object.entries(attacked.responses).map(([status, count]) => `${formatNumber(count)} × ${status}`)
  return [
    `${formatNumber(eventsPerSecond)} events/s`,
    `/livez p99 ${formatNumber(livez.p99Ms)} ms`,
    `${refusals} refusals`,
    `${unanswered} probes unanswered`,
    `attacker got ${responses.join(', ') || 'no responses'}, ${attacked.broken} connections broken`,
  ].join(', ')
}

/** @param {Scenario} scenario @param {{ measured: Measured[], drainMs: number }[]} rounds */
function report({ name, phases, drainUnder }, rounds) {
  /** @param {number} i @param {(result: Measured) => number} pick */
  const values = (i, pick) => rounds.map(({ measured }) => pick(/** @type {Measured} */ (measured[i])))
  const median = (/** @type {number[]} */ all) => formatNumber(summarize(all).median)
  const rate = (/** @type {Measured} */ { eventsPerSecond }) => eventsPerSecond
  const rows = phases.map(({ title }, i) => [
    title,
    median(values(i, rate)),
    `${formatNumber(summarizeRatios(values(i, rate), values(0, rate)).median * 100)} %`,
    ...Object.values(columns).map((pick) => median(values(i, pick))),
  ])
  const table = formatTable([name, 'events/s', 'share', ...Object.keys(columns)], rows)
  if (drainUnder === undefined) return table
  return `${table}\n\ndrain under ${drainUnder}: ${median(rounds.map(({ drainMs }) => drainMs))} ms`
}
