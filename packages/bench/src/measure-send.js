import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectId } from './contenders.js'
import { makeBatch, newSeed, stampBatch } from './make-batch.js'
import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'

/**
 * Processor time of what sends, in microseconds an event.
 *
 * @typedef {{ command: number, loop: number }} SendRound `command` with the start of its process, `loop` without
 */

const ingest = fileURLToPath(new URL('../../cli/bin/ingest.js', import.meta.url))
const ownStat = '/proc/self/stat'
const msPerTick = 10

/**
 * What `ingest send` of a file needs, beside the load of the other measurements, which posts bodies that are ready.
 * Undefined where there is no /proc.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<SendRound[] | undefined>}
 */
export async function measureSend(context, { rounds, seconds, warmupSeconds, sentEvents }) {
  const [ours] = context.contenders.filter(({ name }) => name === 'ours')
  if (!ours) throw new Error('sending is measured to ours')
  if (!existsSync(ownStat)) return undefined
  const file = join(context.directory, 'events.ndjson')
  const results = []
  try {
    for (let round = 0; round < rounds; round++) {
      await writeEvents(file, sentEvents)
      const opened = await openContender(context, ours, { store: 'send', isFresh: true })
      try {
        const { loadCpu, eventsPerSecond } = await opened.send({ ...usualLoad, seconds, warmupSeconds })
        const command = await runSend(file, sentEvents, opened.program.started)
        const loop = (loadCpu * 1e6) / eventsPerSecond
        results.push({ command, loop })
        context.log(`round ${round + 1}: ingest send ${command.toFixed(1)} µs an event, the load ${loop.toFixed(1)}`)
      } finally {
        await opened.close()
      }
    }
  } finally {
    await rm(file, { force: true })
  }
  return results
}

/** New events, one a line. @param {string} file @param {number} count a multiple of 100 */
async function writeEvents(file, count) {
  const [batch, seed] = [makeBatch(projectId, 100), newSeed()]
  const handle = await open(file, 'w')
  try {
    for (let number = 0; number < count / batch.count; number++) {
      stampBatch(batch, seed, number)
      const { events } = JSON.parse(batch.body.toString())
      await handle.write(events.map((/** @type {object} */ event) => `${JSON.stringify(event)}\n`).join(''))
    }
  } finally {
    await handle.close()
  }
}

/**
 * @param {string} file @param {number} count
 * @param {{ port: number, headers: Record<string, string> }} server
 * @returns {Promise<number>} the processor time of the command, in microseconds an event
 */
async function runSend(file, count, { port, headers }) {
  const env = {
    INGEST_URL: `http://127.0.0.1:${port}`,
    INGEST_PROJECT_ID: projectId,
    INGEST_KEY: headers['X-Ingestion-Key'],
  }
  const before = childrenMs()
  const child = spawn(process.execPath, [ingest, 'send', file, '--quiet', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (text) => {
    output += text
  })
  await once(child, 'close')
  const ms = childrenMs() - before
  if (JSON.parse(output).accepted !== count) throw new Error(`ingest send did not store all ${count} events: ${output}`)
  return (ms * 1000) / count
}

/** The processor time of all children that have ended, see proc_pid_stat(5). */
function childrenMs() {
  const text = readFileSync(ownStat, 'latin1')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) + Number(fields[14])) * msPerTick
}
