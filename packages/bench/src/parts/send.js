import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { appendFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { projectId } from '../contenders/find-contenders.js'
import { openOurs } from '../contenders/open-contender.js'
import { endedChildrenMs } from '../contenders/processor-time.js'
import { makeBatch, newSeed, stampBatch } from '../load/make-batch.js'
import { formatTable } from '../report/format.js'
import { figureCell } from '../report/rounds.js'

/**
 * Processor time of the sender in microseconds per event: `command` includes the start of its process, `loop` does not.
 *
 * @typedef {{ command: number, loop: number }} SendRound
 */

const ingest = fileURLToPath(new URL('../../../cli/bin/ingest.js', import.meta.url))

/**
 * The cost of `ingest send` with a file, beside that of the load, whose bodies are prepared. Undefined without /proc.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<SendRound[] | undefined>}
 */
export async function measureSend(context, { rounds, seconds, warmupSeconds, sentEvents }) {
  if (!existsSync('/proc/self/stat')) return undefined
  const file = join(context.directory, 'events.ndjson')
  const results = []
  for (let round = 0; round < rounds; round++) {
    await writeEvents(file, sentEvents)
    const opened = await openOurs(context, 'send')
    try {
      const { loadCpu, eventsPerSecond } = await opened.send({ seconds, warmupSeconds })
      const command = await runSend(file, sentEvents, opened.program.started)
      const loop = (loadCpu * 1e6) / eventsPerSecond
      results.push({ command, loop })
      context.log(`round ${round + 1}: ingest send ${command.toFixed(1)} µs an event, the load ${loop.toFixed(1)}`)
    } finally {
      await opened.close()
    }
  }
  return results
}

/** Writes new events as NDJSON. @param {string} file @param {number} count a multiple of 100 */
async function writeEvents(file, count) {
  const [batch, seed] = [makeBatch(projectId, 100), newSeed()]
  await rm(file, { force: true })
  for (let number = 0; number < count / batch.count; number++) {
    stampBatch(batch, seed, number)
    const { events } = JSON.parse(batch.body.toString())
    await appendFile(file, events.map((/** @type {object} */ event) => `${JSON.stringify(event)}\n`).join(''))
  }
}

/**
 * @param {string} file @param {number} count
 * @param {{ port: number, headers: Record<string, string> }} server
 * @returns {Promise<number>} the processor time of the command, in microseconds per event
 */
async function runSend(file, count, { port, headers }) {
  const env = {
    INGEST_URL: `http://127.0.0.1:${port}`,
    INGEST_PROJECT_ID: projectId,
    INGEST_KEY: headers['X-Ingestion-Key'],
  }
  const before = endedChildrenMs()
  const args = [ingest, 'send', file, '--quiet', '--json']
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')])
  const ms = endedChildrenMs() - before
  if (JSON.parse(output).accepted !== count) throw new Error(`ingest send did not store all ${count} events: ${output}`)
  return (ms * 1000) / count
}

/** @param {readonly SendRound[]} rounds */
export function sendSection(rounds) {
  return [
    'Processor time of the process that sends. `ingest send` reads and checks a file of new events, one a line, and includes the start of its process; the load sends prepared bodies.',
    formatTable(
      ['', 'µs an event'],
      [
        ['`ingest send`', figureCell(rounds, ({ command }) => command)],
        ['the load', figureCell(rounds, ({ loop }) => loop)],
      ],
    ),
  ].join('\n\n')
}
