import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openGame, type Started } from './open-game.ts'

// The sender for Roblox as a program for `ingest conformance`, in a game whose time is that of the machine, scaled.

const { env } = process
const number = (name: string) => Number(env[name])
const timeScale = number('INGEST_TIME_SCALE')
/** Milliseconds of the machine in seconds of the game. */
const toSeconds = (ms: number) => ms / 1000 / timeScale

const startedAt = performance.now()
const gameTime = () => toSeconds(performance.now() - startedAt)
const requestSecondsMax = toSeconds(number('INGEST_TIMEOUT_MS'))
const game = await openGame({ live: { epoch: Date.now() / 1000, timeScale, requestSecondsMax, now: gameTime } })

/** Lets the game catch up with the machine. */
async function passTime(): Promise<void> {
  await game.pass(Math.max(0, gameTime() - game.now()))
}

async function until(started: Started) {
  for (;;) {
    await passTime()
    if (started.end) break
    await sleep(1)
  }
  if (started.end.isFine) return started.end.value
  throw new Error(String(started.end.value))
}

const lines: string[] = []
let isOpen = true
createInterface(process.stdin)
  .on('line', (line) => lines.push(line))
  .on('close', () => {
    isOpen = false
  })

await game.run('sender = require(script.Parent.IngestSender).new(...)', {
  url: env.INGEST_URL,
  projectId: env.INGEST_PROJECT_ID,
  key: env.INGEST_KEY,
  flushSeconds: toSeconds(number('INGEST_FLUSH_MS')),
  queueBytesMax: number('INGEST_QUEUE_BYTES'),
  queueEventsMax: number('INGEST_QUEUE_EVENTS'),
})
let taken = 0
while (isOpen || lines.length > 0) {
  await passTime()
  const line = lines.shift()
  if (line === undefined) await sleep(1)
  else if (line === '') await until(await game.start('sender:flush()'))
  else {
    await game.run('sender:send(...)', JSON.parse(line))
    process.stdout.write(`taken ${++taken}\n`)
  }
}
const closing = await game.start('return sender:close(...)', toSeconds(number('INGEST_CLOSE_MS')))
const { accepted, duplicates, dropped } = (await until(closing)) as {
  accepted: number
  duplicates: number
  dropped: Record<string, number>
}
const { rejected, ...others } = dropped
const counts = { accepted, duplicates, rejected, dropped: others, unsent: 0 }
process.stderr.write([...game.warnings, ...game.output].map((line) => `${line}\n`).join(''))
// connections of requests that the game has given up would keep the process
process.stdout.write(`${JSON.stringify(counts)}\n`, () => process.exit())
