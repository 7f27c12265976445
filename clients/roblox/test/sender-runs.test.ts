import { createRandom, type FaultName, faultNames } from '@ingest/checks/sender'
import type { EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { openFaultyServer } from './faulty-server.ts'
import { type Game, openGame } from './open-game.ts'

// more on demand: INGEST_SEEDS=2000; the seed of a failure once more: INGEST_SEEDS=1 INGEST_FIRST_SEED=1234
t.setTimeout(3_600_000)
const runs = Number(process.env.INGEST_SEEDS ?? 50)
const firstSeed = Number(process.env.INGEST_FIRST_SEED ?? 1)
const met = new Set<string>()

const begin = `
  local settings = ...
  sent, drops = 0, {}
  settings.onDrop = function(reason, events)
    for _, event in events do table.insert(drops, { reason, event.n }) end
  end
  sender = require(script.Parent.IngestSender).new(settings)
`
/** Events are made by the game: what kind, how many characters, and which earlier one they repeat. */
const send = `
  for _, each in ... do
    local event = { n = sent, text = string.rep(each.character, each.length) }
    if each.kind == "rejected" then event.buildId = 7 end
    if each.kind == "no event" then event.x = 0 / 0 end
    sent += 1
    sender:send(event)
  end
`

/** A game server's life, decided by a seed. Throws when a promise of the sender is broken. */
async function run(seed: number): Promise<{ sent: number; dropped: number; stored: number; requests: number }> {
  const random = createRandom(seed)
  const below = (count: number) => Math.floor(random() * count)
  const oneOf = <T>(...values: T[]) => values[below(values.length)] as T
  const fail = (message: string) => new Error(`INGEST_SEEDS=1 INGEST_FIRST_SEED=${seed}: ${message}`)
  const projectId = `run-${seed}`
  const faultRate = oneOf(0, 0.2, 0.5, 0.7)
  // chances of its own, so that the game's do not depend on it
  const fate = createRandom(seed + 1_000_000_007)
  const choose = () => {
    if (fate() >= faultRate) return undefined
    const name = faultNames[Math.floor(fate() * faultNames.length)] as FaultName
    met.add(name)
    return name
  }

  let hold = () => {}
  const server = await openFaultyServer(projectId, choose, () => hold())
  /** Batches with an unknown outcome, which must be sent again. */
  let unanswered: string | undefined
  let broken: string | undefined
  const requestsPerMinute = oneOf(2, 20, 250)
  const game = await openGame({
    onRequest({ body }) {
      if (unanswered !== undefined && unanswered !== body) broken = 'another batch instead of a retry'
      unanswered = body
    },
    onAnswer(request, outcome) {
      const { StatusCode = 0, Body = '' } = 'answer' in outcome ? outcome.answer : {}
      const isTaken = StatusCode === 202 && /:[1-9]|\[\{/.test(Body)
      const isDropped = (StatusCode === 400 && !request.isCompressed) || StatusCode === 413
      if (isTaken || isDropped) unanswered = undefined
      return undefined
    },
  })
  hold = game.hold
  try {
    await game.run(begin, {
      url: server.url,
      projectId,
      key: 'ik_any',
      flushSeconds: oneOf(0, 2, 60),
      queueEventsMax: oneOf(30, 200, 10_000),
      queueBytesMax: oneOf(100_000, 16 * 1024 * 1024),
      requestsPerMinute,
    })
    let sent = 0
    for (let step = 2 + below(5); step > 0; step--) {
      const events = makeEvents(below)
      sent += events.length
      await game.run(send, events)
      if (below(3) === 0) await game.until(await game.start('sender:flush()'))
      else await game.pass(below(5000) / 1000)
    }
    const deadline = oneOf(0, 1, 25, 1_000_000)
    const last = await game.until(await game.start('return sender:close(...)', deadline))
    if (broken) throw fail(broken)
    const times = game.received.map(({ at }) => at)
    if (times.some((at, i) => (times[i + requestsPerMinute] ?? Number.POSITIVE_INFINITY) < at + 60 - 1e-6))
      throw fail('more requests than the budget has')
    const stored = await numbersIn(server.ingest, projectId)
    const dropped = await judge({ game, sent, stored, last, fail })
    return { sent, dropped, stored: stored.length, requests: times.length }
  } finally {
    await game.close()
    await server.close()
  }
}

function makeEvents(below: (count: number) => number) {
  return Array.from({ length: 1 + below(80) }, () => {
    const kind = below(40)
    if (kind === 3 && below(8) === 0) return { character: 'x', length: 262_000 + below(300) }
    if (kind === 0) return { kind: 'rejected', character: 'x', length: 1 }
    if (kind === 1) return { kind: 'no event', character: 'x', length: 1 }
    if (kind === 2) return { character: '€', length: below(20_000) }
    return { character: 'ö', length: below(60) }
  })
}

interface Life {
  game: Game
  sent: number
  /** The numbers of the stored events, in order. */
  stored: readonly number[]
  /** The statistics of the sender once it was closed. */
  last: { accepted: number; duplicates: number; queuedEvents: number; dropped: Record<string, number> }
  fail(message: string): Error
}

/** Compares what was stored with what was sent. Returns how many events were dropped. */
async function judge({ game, sent, stored, last, fail }: Life): Promise<number> {
  const gone = Object.values(last.dropped).reduce((sum, count) => sum + count, 0)
  if (last.queuedEvents !== 0 || last.accepted + last.duplicates + gone !== sent) throw fail('counts do not add up')
  if (game.output.length > 0) throw fail(`the console says ${game.output[0]}`)
  const drops: [string, number][] = await game.run('return drops')
  if (drops.length !== gone) throw fail('onDrop missed a dropped event')
  const dropped = new Set(drops.map(([, n]) => n))
  if (new Set(stored).size !== stored.length) throw fail('an event is stored twice')
  if (stored.join() !== stored.toSorted((a, b) => a - b).join()) throw fail('events are out of order')
  const there = new Set(stored)
  const lost = Array.from({ length: sent }, (_, n) => n).filter((n) => !dropped.has(n) && !there.has(n))
  if (lost.length > 0) throw fail(`${lost.length} events are lost without a reason, first ${lost[0]}`)
  // only an answer that was lost, or that a proxy gave, makes that unknown
  const never = drops.filter(([reason]) => reason === 'queue_overflow' || reason === 'rejected')
  if (never.some(([, n]) => there.has(n))) throw fail('an event is stored that was dropped for good')
  return drops.length
}

async function numbersIn(ingest: EmbeddedIngest, projectId: string): Promise<number[]> {
  const numbers: number[] = []
  for await (const { bytes } of ingest.project(projectId).readEvents())
    numbers.push(JSON.parse(Buffer.from(bytes).toString()).n)
  return numbers
}

const seeds = `INGEST_SEEDS=${runs} INGEST_FIRST_SEED=${firstSeed}`
t.test(`what was not dropped with a reason is stored once and in order (${seeds})`, async (t) => {
  const total = { sent: 0, dropped: 0, stored: 0, requests: 0 }
  for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
    const report = await run(seed)
    for (const name of ['sent', 'dropped', 'stored', 'requests'] as const) total[name] += report[name]
  }
  t.comment(total)
  if (runs < 50) return
  t.ok(total.stored > total.sent / 2 && total.dropped > 0)
  t.strictSame([...met].sort(), [...faultNames].sort(), 'every fault was met')
})
