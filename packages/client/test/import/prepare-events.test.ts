import t from 'tap'
import { eventBytesMax } from '../../src/batch/fill-batch.ts'
import { type PrepareOptions, prepareEvents, rejectEvent } from '../../src/import/prepare-events.ts'

async function prepare(text: string | Buffer, options?: PrepareOptions) {
  async function* source() {
    yield Buffer.from(text)
  }
  const events: { at: number; text: string; hasMadeId: boolean }[] = []
  const rejected: { at: number; eventId: string | null; codes: string[]; event: string }[] = []
  let fault: unknown
  try {
    for await (const prepared of prepareEvents(source(), options)) {
      events.push(...prepared.events.map(({ at, bytes, hasMadeId }) => ({ at, text: bytes.toString(), hasMadeId })))
      for (const { at, eventId, issues, event } of prepared.rejected) {
        rejected.push({
          at,
          eventId,
          codes: issues.map(({ code, path }) => `${code} ${path}`),
          event: event.toString(),
        })
      }
    }
  } catch (error) {
    fault = error
  }
  return { events, rejected, fault }
}

t.test('events are kept byte for byte', async (t) => {
  const odd = '{ "eventId" : "e" ,\t"projectId":"p","big":12345678901234567890123,"f":1.0,"k":1,"k":2}'
  const lines = odd.replaceAll(/\t/g, ' ')
  t.match(await prepare(`${lines}\n`), { events: [{ at: 1, text: lines }], rejected: [] })
  const broken = odd.replace('\t', '\r\n')
  t.match(await prepare(`[\n${broken}\n]`), { events: [{ at: 0, text: broken }], rejected: [] })
})

t.test('a missing projectId is set to the given one', async (t) => {
  t.match(await prepare('{"eventId":"e"}', { projectId: 'p' }), {
    events: [{ text: '{"projectId":"p","eventId":"e"}' }],
  })
  t.match(await prepare('{"eventId":"e"}'), { events: [{ text: '{"eventId":"e"}' }] })
  t.match(await prepare('{"eventId":"e","projectId":"q"}', { projectId: 'p' }), { events: [{ text: /"q"/ }] })
})

t.test('an event without an eventId is rejected, or gets one with makeIds', async (t) => {
  const text = '{"n":1}\n{"n":2}\n{"eventId":null}'
  const without = await prepare(text)
  t.match(without.rejected, [
    { at: 1, eventId: null, codes: ['required /eventId'], event: '{"n":1}' },
    { at: 2, codes: ['required /eventId'] },
  ])
  t.strictSame(
    without.events,
    [{ at: 3, text: '{"eventId":null}', hasMadeId: false }],
    'invalid ids are rejected by the server',
  )
  const { events, rejected } = await prepare(text, { makeIds: true })
  t.strictSame(rejected, [])
  t.strictSame(
    events.map(({ hasMadeId }) => hasMadeId),
    [true, true, false],
  )
  const [first, second] = events.map(({ text }) => JSON.parse(text).eventId)
  t.match(first, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/)
  t.ok(second > first)
})

t.test('a line that is not an object is rejected on its own', async (t) => {
  const good = '{"eventId":"e"}'
  const { events, rejected, fault } = await prepare(`${good}\n{"a":\nnull\n[1]\n5\n{"a":1}}\n${good}`)
  t.strictSame(
    events.map(({ at }) => at),
    [1, 7],
  )
  t.strictSame(rejected, [
    { at: 2, eventId: null, codes: ['not_object '], event: '"{\\"a\\":"' },
    { at: 3, eventId: null, codes: ['not_object '], event: 'null' },
    { at: 4, eventId: null, codes: ['not_object '], event: '[1]' },
    { at: 5, eventId: null, codes: ['not_object '], event: '5' },
    { at: 6, eventId: null, codes: ['not_object '], event: '"{\\"a\\":1}}"' },
  ])
  t.equal(fault, undefined)
})

t.test('bytes that are not UTF-8 are not JSON', async (t) => {
  const line = Buffer.concat([Buffer.from('{"eventId":"'), Buffer.of(0xff), Buffer.from('"}\n')])
  t.match(await prepare(line), {
    events: [],
    rejected: [{ codes: ['not_object '], event: '"{\\"eventId\\":\\"\ufffd\\"}"' }],
  })
})

t.test('an array with invalid JSON throws after the elements before it', async (t) => {
  const { events, fault } = await prepare('[{"eventId":"e"},{"eventId":},{"eventId":"f"}]')
  t.strictSame(
    events.map(({ at }) => at),
    [0],
  )
  t.match(fault, { code: 'malformed-body', message: /^Element 1 of the array is not JSON/ })
  t.match(await prepare('[{"eventId":"e"},{"eventId":"f"}'), { events: [{ at: 0 }], fault: { message: /no end/ } })
  t.match(await prepare('[5]'), { rejected: [{ at: 0, codes: ['not_object '] }], fault: undefined })
})

t.test('an event that is larger than a batch, including its projectId, is rejected', async (t) => {
  const event = (bytes: number) => `{"eventId":"e","x":"${'x'.repeat(bytes - 22)}"}`
  t.match(await prepare(event(eventBytesMax)), { events: [{ at: 1 }], rejected: [] })
  const over = event(eventBytesMax + 1)
  t.match(await prepare(over), { events: [], rejected: [{ eventId: 'e', codes: ['too_long '], event: over }] })
  t.match(await prepare(event(eventBytesMax), { projectId: 'p' }), { rejected: [{ codes: ['too_long '] }] })
  t.match(await prepare(event(600_000)), { rejected: [{ eventId: null, codes: ['too_long '], event: 'null' }] })
})

t.test('a line of an export or of a report of rejected events is unwrapped', async (t) => {
  const event = '{ "eventId":"e","projectId":"p", "f":1.0,"s":",\\"event\\":" }'
  const lines = [
    `{"cursor":"1-0","receivedAt":1795203225083,"event":${event}}`,
    `{"line":3,"eventId":"e","issues":[{"code":"too_long","path":"/,\\"event\\":","message":""}],"event":${event}}`,
    `{"index":0,"eventId":null,"issues":[],"event":${event}}`,
  ]
  const { events } = await prepare(lines.join('\n'))
  t.strictSame(
    events.map(({ text }) => text),
    [event, event, event],
  )
  t.match(await prepare('{"cursor":"1-0","receivedAt":1,"event":{"n":1}}'), {
    rejected: [{ codes: ['required /eventId'], event: '{"n":1}' }],
  })
})

t.test('the body of a batch request is rejected', async (t) => {
  const body = '{"events":[{"projectId":"p","eventId":"e"}]}'
  for (const makeIds of [false, true]) {
    t.match(await prepare(body, { makeIds }), {
      events: [],
      rejected: [{ codes: ['not_allowed /events'], event: body }],
    })
  }
  t.match(await prepare('{"type":"t","events":[]}', { makeIds: true }), { events: [{ hasMadeId: true }], rejected: [] })
})

t.test('a wrapped line may have whitespace and escapes', async (t) => {
  const event = '{"eventId":"e","event":{"n":1}}'
  for (const line of [
    `{"cursor": "1-0", "receivedAt": 1, "event": ${event}}`,
    `{ "line" : 3 , "eventId" : "e" , "issues" : [] , "event" : ${event} }`,
    `{"line":3,"eventId":"e","issues":[],"\\u0065vent":${event}}`,
    `{"line":3,"eventId":"e","issues":[{"event":1,"event":2}],"event":0,"event":${event}}`,
  ]) {
    t.match(await prepare(line), { events: [{ text: event }], rejected: [] }, line)
  }
})

t.test('an event that resembles a wrapped line is kept', async (t) => {
  for (const text of [
    '{"cursor":"c","eventId":"e","event":{"eventId":"inner"}}',
    '{"eventId":"e","event":{"eventId":"inner"}}',
    '{"line":3,"eventId":"e","issues":[],"event":"jump"}',
    '{"line":3,"eventId":"e","issues":[],"event":{"eventId":"inner"},"more":1}',
    '{"event":{"eventId":"inner"},"line":3,"eventId":"e","issues":[]}',
  ]) {
    t.match(await prepare(text), { events: [{ text }] })
  }
})

t.test('rejectEvent returns the event in one line', async (t) => {
  const prepared = { at: 3, bytes: Buffer.from('{\n"eventId":"e"}'), hasMadeId: false }
  const issues = [{ code: 'too_deep', path: '', message: 'Deep.' } as const]
  t.strictSame(rejectEvent(prepared, { eventId: 'e', issues }), {
    at: 3,
    eventId: 'e',
    issues,
    event: Buffer.from('{ "eventId":"e"}'),
  })
})
