import { isDeepStrictEqual } from 'node:util'
import { batchBytesMax, batchEventsMax } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'
import { faults } from '../faults.ts'
import { BrokenRule, idsOf } from '../play.ts'
import { type Exchange, key, projectId } from '../scripted-server.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

/** Rules for the contents of a request. */
export const requestRules: readonly Rule[] = [
  {
    id: 'request',
    rule: 'The body is `{ "events": [ … ] }`: at most 100 events and 262,144 bytes, also after decompression.',
    expected: 'POST /v1/events/batch with the headers of the project and its key, and the events as they were given',
    async play(play) {
      const events = [
        { type: 'round.start', buildId: 'b-1', timestamp: 1_795_266_173_061 },
        { text: 'é 🎮 "\\\n', nested: { list: [1.5, null, true, { a: [] }], empty: {} } },
      ]
      play.flush(events)
      const exchange = await play.next()
      checkRequest(exchange)
      checkEvents(exchange.events, events)
      await exchange.accept()
      await play.finish({ accepted: 2 })
    },
  },
  {
    id: 'base-path',
    rule: 'Append `/v1/events/batch` to the whole base URL, which may have a path.',
    expected: 'POST /game/events/v1/events/batch if INGEST_URL ends in /game/events, also with a slash behind it',
    settings: { path: '/game/events' },
    async play(play) {
      for (const end of ['', '/']) {
        if (end) await play.restart(0, { path: `/game/events${end}` })
        play.flush(makeEvents(1))
        const exchange = await play.next()
        if (exchange.path !== '/game/events/v1/events/batch') throw new BrokenRule(`POST ${exchange.path}`)
        await exchange.accept()
        await play.finish({ accepted: 1 })
      }
    },
  },
  {
    id: 'project-id',
    rule: 'The sender adds a missing `eventId` and `projectId`, and keeps given ones.',
    expected: 'the given projectId in the batch, also another one, which the server rejects',
    async play(play) {
      const given = [projectId, 'another']
      play.flush(given.map((projectId) => ({ projectId })))
      const exchange = await play.next()
      const sent = exchange.events.map(({ projectId }) => projectId)
      if (sent.join() !== given.join()) throw new BrokenRule(`the projectIds ${sent.join(', ')}`)
      await exchange.accept()
      await play.finish({ accepted: 1, rejected: 1 })
    },
  },
  {
    id: 'event-ids',
    rule: 'Choose the `eventId` when the event happens (a random UUID), keep it, never reuse it.',
    expected:
      'a UUID of version 4 or 7 for each event without an id, the same in each attempt, and given ids as they are',
    async play(play) {
      play.flush([{ n: 0 }, { n: 1 }, { n: 2, eventId: 'own-1' }])
      const first = await play.next()
      first.respond(503)
      const retry = await play.retryOf(first)
      await retry.accept()
      play.flush(makeEvents(2, 3))
      const second = await play.next()
      await second.accept()
      const ids = [...idsOf(retry), ...idsOf(second)]
      const made = ids.filter((id) => id !== 'own-1')
      const wrong = made.find((id) => typeof id !== 'string' || !uuid.test(id))
      if (wrong !== undefined) throw new BrokenRule(`the id ${wrong}`)
      if (ids.length !== 5 || new Set(ids).size !== 5 || made.length !== 4)
        throw new BrokenRule(`ids ${ids.join(', ')}`)
      await play.finish({ accepted: 5 })
    },
  },
  {
    id: 'same-bytes',
    rule: 'Retry the same bytes.',
    expected: 'the same body in every attempt',
    async play(play) {
      play.flush(makeEvents(3))
      const first = await play.next()
      let attempt = first
      for (const fault of [faults[503], faults['reset before'], faults[429], faults['reset after']]) {
        await attempt.inject(fault)
        attempt = await play.retryOf(first)
        if (!attempt.body.equals(first.body)) throw new BrokenRule(`${quote(attempt)} after ${quote(first)}`)
      }
      await attempt.accept()
      await play.finish({ duplicates: 3 })
    },
  },
  {
    id: 'too-large',
    rule: 'Send at most 100 events and 262,144 bytes in a batch, one batch at a time, in order.',
    expected: 'batches within both limits, also by one byte, and an event that is larger than a batch `too_large`',
    async play(play) {
      play.flush(makeEvents(250))
      await receive(play, 250, checkLimits)
      // 90,000 bytes in 30,000 characters
      play.flush(makeEvents(5, 250).map((event) => ({ ...event, text: '€'.repeat(30_000) })))
      await receive(play, 5, checkLimits)
      play.flush([{ n: 255 }, { n: 256, text: 'x'.repeat(300_000) }, { n: 257 }])
      await receive(play, 2, checkLimits)
      for (const count of [1, 2]) {
        // measure the batch without texts: its size depends on how the sender writes it
        play.flush(makeTexts(count, 0))
        const exchange = await play.next()
        checkLimits(exchange)
        if (exchange.events.length !== count)
          throw new BrokenRule(`a batch of another size than ${count} flushed events`)
        await exchange.accept()
        const charsMax = batchBytesMax - exchange.body.length
        play.flush(makeTexts(count, charsMax))
        await receive(play, count, checkLimits)
        play.flush(makeTexts(count, charsMax + 1))
        if (count > 1) await receive(play, count, checkLimits)
      }
      await play.finish({ accepted: 265, dropped: { too_large: 2 } })
    },
  },
]

/** Events with texts of that many characters in total; their other members have a constant length. */
function makeTexts(count: number, chars: number): JsonObject[] {
  const rest = Math.floor(chars / count)
  return makeEvents(count, 1000).map((event, i) => ({
    ...event,
    text: 'x'.repeat(i > 0 ? rest : chars - rest * (count - 1)),
  }))
}

const uuid = /^[\da-f]{8}-[\da-f]{4}-[47][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/i

function checkRequest({ method, path, headers, body }: Exchange): void {
  if (method !== 'POST' || path !== '/v1/events/batch') throw new BrokenRule(`${method} ${path}`)
  if (headers['x-project-id'] !== projectId) throw new BrokenRule(`X-Project-Id: ${headers['x-project-id']}`)
  const hasKey = headers['x-ingestion-key'] === key || headers.authorization === `Bearer ${key}`
  if (!hasKey) throw new BrokenRule('neither X-Ingestion-Key nor Authorization: Bearer with the key')
  const { 'content-type': type = 'none', 'content-encoding': coding = 'gzip' } = headers
  if (!/^application\/json\b/i.test(type)) throw new BrokenRule(`Content-Type: ${type}`)
  if (coding !== 'gzip') throw new BrokenRule(`Content-Encoding: ${coding}`)
  if (!/^\s*\{/.test(body.toString())) throw new BrokenRule(`the body ${body.toString().slice(0, 100)}`)
}

function checkEvents(received: readonly JsonObject[], given: readonly JsonObject[]): void {
  if (received.length !== given.length) throw new BrokenRule(`${received.length} events`)
  received.forEach((event, i) => {
    const { eventId: _, projectId: project, ...members } = event
    if (project !== projectId) throw new BrokenRule(`an event with the projectId ${project}`)
    if (!isDeepStrictEqual(members, given[i])) throw new BrokenRule(`the event ${JSON.stringify(event)}`)
  })
}

function checkLimits({ events, body }: Exchange): void {
  if (events.length > batchEventsMax) throw new BrokenRule(`a batch of ${events.length} events`)
  if (body.length > batchBytesMax) throw new BrokenRule(`a batch of ${body.length} bytes`)
}

function quote({ body }: Exchange): string {
  return body.toString().slice(0, 200)
}
