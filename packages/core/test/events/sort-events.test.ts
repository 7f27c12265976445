import t from 'tap'
import { Type } from 'typebox'
import { sortEvents, takeOutRepeats } from '../../src/events/classify-events.ts'
import { isObject } from '../../src/events/event.ts'
import { compileEventSchemas, type EventSchemas } from '../../src/events/event-schemas.ts'
import type { AppendEvent } from '../../src/events/event-store.ts'

const event = (eventId: unknown, members: object = {}) => ({ projectId: 'p', eventId, ...members })
/** Where the event at an index is said to stand. */
const at = (index: number) => ({ start: index * 10, end: index * 10 + 5 })
const indexOf = ({ start }: { start: number }) => start / 10
const sort = (events: unknown[], schemas: EventSchemas = {}) =>
  sortEvents(
    'p',
    events.map((event, index) => ({ event: isObject(event) ? event : undefined, ...at(index) })),
    compileEventSchemas(schemas),
  )
const nothing = { unidentified: [], faulty: [], valid: [], repeats: [] }

t.test('valid events keep their place, their id and the build that they reference', async (t) => {
  t.strictSame(sort([event('a'), event('b', { buildId: 'x' }), event('c', { buildId: null })]), {
    ...nothing,
    valid: [
      { eventId: 'a', ...at(0) },
      { eventId: 'b', buildId: 'x', ...at(1) },
      { eventId: 'c', ...at(2) },
    ],
  })
  t.strictSame(sort([]), nothing)
})

t.test('events without an identity are told with the eventId where it is usable', async (t) => {
  const events = [1, null, [], {}, { projectId: 'p', eventId: 5 }, { projectId: 'q', eventId: 'a' }, { eventId: 'b\n' }]
  const { unidentified, ...others } = sort(events)
  t.strictSame(others, { faulty: [], valid: [], repeats: [] })
  t.strictSame(
    unidentified.map(({ index, eventId }) => [index, eventId]),
    [
      [0, null],
      [1, null],
      [2, null],
      [3, null],
      [4, null],
      [5, 'a'],
      [6, null],
    ],
  )
  t.strictSame(
    unidentified.map(({ issues }) => issues.map(({ code }) => code)),
    [
      ['not_object'],
      ['not_object'],
      ['not_object'],
      ['required', 'required'],
      ['invalid_type'],
      ['project_mismatch'],
      ['invalid_format', 'required'],
    ],
  )
})

t.test('an event without an identity is not held to the other rules', async (t) => {
  const { unidentified } = sort([{ projectId: 'q', eventId: 'a', buildId: 5 }])
  t.strictSame(
    unidentified[0]?.issues.map(({ path }) => path),
    ['/projectId'],
  )
})

t.test('faulty events have the issues of the fields and of the schema', async (t) => {
  const schemas = { kill: Type.Object({ weapon: Type.String() }) }
  const { faulty, valid } = sort(
    [event('a', { type: 'kill', buildId: 1 }), event('b', { type: 'kill', weapon: 'x' })],
    schemas,
  )
  const rejection = { index: 0, eventId: 'a', issues: [{ path: '/buildId' }, { path: '/weapon' }] }
  t.match(faulty, [{ eventId: 'a', ...at(0), rejection }])
  t.equal(faulty.length, 1)
  t.strictSame(valid, [{ eventId: 'b', ...at(1) }])
})

t.test('a schema may also rule over well-known fields', async (t) => {
  const schemas = { kill: { required: ['buildId'], properties: { placeId: { type: 'string' } } } }
  const { faulty } = sort([event('a', { type: 'kill', placeId: 1 })], schemas)
  t.strictSame(faulty[0]?.rejection.issues.map(({ code, path }) => `${code} ${path}`).sort(), [
    'invalid_type /placeId',
    'required /buildId',
  ])
})

t.test('an event has at most 20 issues, those of the fields first', async (t) => {
  const names = Array.from({ length: 30 }, (_, i) => `m${i}`)
  const schema = Type.Object(Object.fromEntries(names.map((name) => [name, Type.String()])))
  const { faulty } = sort([event('a', { type: 'kill', buildId: 1, placeId: true })], { kill: schema })
  t.equal(faulty[0]?.rejection.issues.length, 20)
  t.match(faulty[0]?.rejection.issues, [{ path: '/buildId' }, { path: '/placeId' }, { path: '/m0' }])
})

t.test('an event that is too deep is not shown to a schema, which may refer to itself', async (t) => {
  const node = { type: 'object', properties: { child: { $ref: 'node' } } }
  const schema = { $defs: { node: { $id: 'node', ...node } }, $ref: 'node' }
  const deep: unknown = JSON.parse(`${'{"child":'.repeat(40_000)}1${'}'.repeat(40_000)}`)
  const { faulty } = sort(
    [event('a', { type: 'tree', child: deep }), event('b', { type: 'tree', child: { child: 1 } })],
    { tree: schema },
  )
  t.match(faulty, [
    { eventId: 'a', rejection: { eventId: 'a', issues: [{ code: 'too_deep' }] } },
    { eventId: 'b', rejection: { eventId: 'b', issues: [{ code: 'invalid_type', path: '/child/child' }] } },
  ])
  t.equal(faulty[0]?.rejection.issues.length, 1)
})

t.test('of valid events with one id the first counts, and the others repeat it', async (t) => {
  const { valid, repeats } = sort([event('a'), event('b'), event('a', { other: 1 }), event('a')])
  t.strictSame(valid.map(indexOf), [0, 1])
  t.strictSame(repeats, [
    { eventId: 'a', ...at(2) },
    { eventId: 'a', ...at(3) },
  ])
})

t.test('repeats are taken out of events that are known to be valid, too', async (t) => {
  const event = (eventId: string, index: number) => ({ eventId, buildId: `build-${index}`, ...at(index) })
  const [a, b, again, c, andAgain] = ['a', 'b', 'a', 'c', 'a'].map(event)
  t.strictSame(takeOutRepeats([a, b, again, c, andAgain] as AppendEvent[]), {
    valid: [a, b, c],
    repeats: [again, andAgain],
  })
  t.strictSame(takeOutRepeats([]), { valid: [], repeats: [] })
})

t.test('a faulty event repeats nothing and is repeated by nothing', async (t) => {
  const bad = { buildId: 1 }
  for (const [events, faultyAt, validAt] of [
    [[event('a', bad), event('a')], [0], [1]],
    [[event('a'), event('a', bad)], [1], [0]],
    [[event('a', bad), event('a', bad)], [0, 1], []],
  ] as const) {
    const { faulty, valid, repeats } = sort([...events])
    t.strictSame(faulty.map(indexOf), faultyAt)
    t.strictSame(
      faulty.map(({ rejection }) => rejection.index),
      faultyAt,
    )
    t.strictSame(valid.map(indexOf), validAt)
    t.strictSame(repeats, [])
  }
})

t.test('ids that look alike do not repeat one another', async (t) => {
  const ids = [
    'a',
    'A',
    'a ',
    ' a',
    '\u00e9',
    'e\u0301',
    '1',
    '01',
    '__proto__',
    'constructor',
    'x'.repeat(256),
    `${'x'.repeat(255)}y`,
  ]
  for (const sent of [ids, [...ids].reverse()]) {
    const { valid, repeats } = sort(sent.map((id) => event(id)))
    t.strictSame(
      valid.map(({ eventId }) => eventId),
      sent,
    )
    t.strictSame(repeats, [])
  }
})
