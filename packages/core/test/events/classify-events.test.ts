import t from 'tap'
import { Type } from 'typebox'
import type { AppendEvent } from '../../src/events/batch-events.ts'
import { checkEvent, classifyEvents, splitRepeats } from '../../src/events/classify-events.ts'
import { eventDepthMax } from '../../src/events/event.ts'
import { compileEventSchemas, type EventSchemas } from '../../src/events/event-schemas.ts'
import { parseBatch } from '../../src/events/parse-batch.ts'
import { isObject } from '../../src/validation.ts'

const event = (eventId: unknown, members: object = {}) => ({ projectId: 'p', eventId, ...members })
/** The ranges of the event at an index and of its id. */
const at = (index: number) => ({
  start: index * 10,
  end: index * 10 + 5,
  idStart: index * 10 + 2,
  idEnd: index * 10 + 3,
})
const indexOf = ({ start }: { start: number }) => start / 10
const classify = (events: unknown[], schemas: EventSchemas = {}) =>
  classifyEvents(
    'p',
    events.map((event, index) => ({ event: isObject(event) ? event : undefined, ...at(index) })),
    compileEventSchemas(schemas),
  )
const nothing = { unidentified: [], invalid: [], valid: [], repeated: [] }

t.test('a valid event has its range, its id and the build that it references', async (t) => {
  t.strictSame(classify([event('a'), event('b', { buildId: 'x' }), event('c', { buildId: null })]), {
    ...nothing,
    valid: [
      { eventId: 'a', ...at(0) },
      { eventId: 'b', buildId: 'x', ...at(1) },
      { eventId: 'c', ...at(2) },
    ],
  })
  t.strictSame(classify([]), nothing)
})

t.test('unidentified events have their eventId where it is valid', async (t) => {
  const events = [1, null, [], {}, { projectId: 'p', eventId: 5 }, { projectId: 'q', eventId: 'a' }, { eventId: 'b\n' }]
  const { unidentified, ...others } = classify(events)
  t.strictSame(others, { invalid: [], valid: [], repeated: [] })
  t.strictSame(
    unidentified.map(({ rejection: { index, eventId } }) => [index, eventId]),
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
    unidentified.map(({ rejection }) => rejection.issues.map(({ code }) => code)),
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

t.test('an unidentified event is not checked by the other rules', async (t) => {
  const { unidentified } = classify([{ projectId: 'q', eventId: 'a', buildId: 5 }])
  t.strictSame(
    unidentified[0]?.rejection.issues.map(({ path }) => path),
    ['/projectId'],
  )
})

t.test('an invalid event has the issues of its fields and of its schema', async (t) => {
  const schemas = { kill: Type.Object({ weapon: Type.String() }) }
  const { invalid, valid } = classify(
    [event('a', { type: 'kill', buildId: 1 }), event('b', { type: 'kill', weapon: 'x' })],
    schemas,
  )
  const rejection = { index: 0, eventId: 'a', issues: [{ path: '/buildId' }, { path: '/weapon' }] }
  t.match(invalid, [{ eventId: 'a', start: 0, end: 5, rejection }])
  t.equal(invalid.length, 1)
  t.strictSame(valid, [{ eventId: 'b', ...at(1) }])
})

t.test('a schema may restrict well-known fields', async (t) => {
  const schemas = { kill: { required: ['buildId'], properties: { placeId: { type: 'string' } } } }
  const { invalid } = classify([event('a', { type: 'kill', placeId: 1 })], schemas)
  t.strictSame(invalid[0]?.rejection.issues.map(({ code, path }) => `${code} ${path}`).sort(), [
    'invalid_type /placeId',
    'required /buildId',
  ])
})

t.test('an event has at most 20 issues, those of the fields first', async (t) => {
  const names = Array.from({ length: 30 }, (_, i) => `m${i}`)
  const schema = Type.Object(Object.fromEntries(names.map((name) => [name, Type.String()])))
  const { invalid } = classify([event('a', { type: 'kill', buildId: 1, placeId: true })], { kill: schema })
  t.equal(invalid[0]?.rejection.issues.length, 20)
  t.match(invalid[0]?.rejection.issues, [{ path: '/buildId' }, { path: '/placeId' }, { path: '/m0' }])
})

t.test('an event that is too deep is not checked by a schema, which may be recursive', async (t) => {
  const node = { type: 'object', properties: { child: { $ref: 'node' } } }
  const schema = { $defs: { node: { $id: 'node', ...node } }, $ref: 'node' }
  const tree = (eventId: string, child: string) =>
    `{"projectId":"p","eventId":"${eventId}","type":"tree","child":${child}}`
  const deep = `${'{"child":'.repeat(40_000)}1${'}'.repeat(40_000)}`
  const body = Buffer.from(`{"events":[${tree('a', deep)},${tree('b', '{"child":1}')}]}`)
  const { invalid } = classifyEvents('p', parseBatch(body), compileEventSchemas({ tree: schema }), ({ start, end }) =>
    JSON.parse(body.toString('utf8', start, end)),
  )
  t.match(invalid, [
    { eventId: 'a', rejection: { eventId: 'a', issues: [{ code: 'too_deep' }] } },
    { eventId: 'b', rejection: { eventId: 'b', issues: [{ code: 'invalid_type', path: '/child/child' }] } },
  ])
  t.equal(invalid[0]?.rejection.issues.length, 1)
})

t.test('the first valid event of an id is valid, and the others are repeated', async (t) => {
  const { valid, repeated } = classify([event('a'), event('b'), event('a', { other: 1 }), event('a')])
  t.strictSame(valid.map(indexOf), [0, 1])
  t.strictSame(repeated, [
    { eventId: 'a', ...at(2) },
    { eventId: 'a', ...at(3) },
  ])
})

t.test('splitRepeats separates the first event of each id from the others', async (t) => {
  const event = (eventId: string, index: number) => ({ eventId, buildId: `build-${index}`, ...at(index) })
  const [a, b, again, c, andAgain] = ['a', 'b', 'a', 'c', 'a'].map(event)
  t.strictSame(splitRepeats([a, b, again, c, andAgain] as AppendEvent[]), {
    valid: [a, b, c],
    repeated: [again, andAgain],
  })
  t.strictSame(splitRepeats([]), { valid: [], repeated: [] })
})

t.test('an invalid event is not a repeat, and has none', async (t) => {
  const bad = { buildId: 1 }
  for (const [events, invalidAt, validAt] of [
    [[event('a', bad), event('a')], [0], [1]],
    [[event('a'), event('a', bad)], [1], [0]],
    [[event('a', bad), event('a', bad)], [0, 1], []],
  ] as const) {
    const { invalid, valid, repeated } = classify([...events])
    t.strictSame(invalid.map(indexOf), invalidAt)
    t.strictSame(
      invalid.map(({ rejection }) => rejection.index),
      invalidAt,
    )
    t.strictSame(valid.map(indexOf), validAt)
    t.strictSame(repeated, [])
  }
})

t.test('similar ids are different ids', async (t) => {
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
    const { valid, repeated } = classify(sent.map((id) => event(id)))
    t.strictSame(
      valid.map(({ eventId }) => eventId),
      sent,
    )
    t.strictSame(repeated, [])
  }
})

const depthIssues = (members: string) =>
  checkEvent('p', Buffer.from(`{"projectId":"p","eventId":"e",${members}}`)).issues.map(
    ({ code, path }) => `${code} ${path}`,
  )

t.test('an event nests at most 32 levels deep, itself the first', async (t) => {
  const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const objects = (levels: number) => `${'{"a":'.repeat(levels)}null${'}'.repeat(levels)}`
  t.equal(eventDepthMax, 32)
  for (const nest of [lists, objects]) {
    t.strictSame(depthIssues(`"x":${nest(31)}`), [])
    t.match(depthIssues(`"x":${nest(32)}`), [/^too_deep \/x/])
  }
  t.strictSame(depthIssues(`"a":1,"x":${lists(32)}`), [`too_deep /x${'/0'.repeat(31)}`])
  t.strictSame(depthIssues(`"a/b":${objects(32)}`), [`too_deep /a~1b${'/a'.repeat(31)}`])
  t.strictSame(depthIssues(`"x":${lists(32)},"y":${lists(40)}`).length, 1, 'reported once')
  t.match(depthIssues(`"x":{"__proto__":${lists(40)}}`), [/^too_deep \/x\/__proto__\/0/])
  t.match(depthIssues(`"x":${lists(100_000)}`), [/^too_deep /], 'does not exhaust the stack')
})

t.test('checkEvent checks the bytes of an event, before members replace each other', async (t) => {
  const deep = `${'['.repeat(32)}${']'.repeat(32)}`
  const bytes = Buffer.from(`{"projectId":"p","eventId":"e","d":${deep},"d":1}`)
  t.match(checkEvent('p', bytes), { eventId: 'e', isIdentified: true, issues: [{ code: 'too_deep' }] })
})

t.test('checkEvent finds no issues in a valid event', async (t) => {
  const event = { projectId: 'p', eventId: 'e', buildId: 'b', anything: [1] }
  t.strictSame(checkEvent('p', event), { eventId: 'e', isIdentified: true, issues: [] })
})

t.test('checkEvent checks a value as JSON', async (t) => {
  const event = { projectId: 'p', eventId: 'e', timestamp: new Date(0), buildId: undefined }
  t.strictSame(checkEvent('p', event), { eventId: 'e', isIdentified: true, issues: [] })
  t.match(checkEvent('p', undefined), { eventId: null, isIdentified: false, issues: [{ code: 'not_object' }] })
  t.throws(() => checkEvent('p', { ...event, n: 1n }), { code: 'malformed-body' })
})

t.test('checkEvent identifies an invalid event', async (t) => {
  t.match(checkEvent('p', { projectId: 'p', eventId: 'e', buildId: 7 }), {
    eventId: 'e',
    isIdentified: true,
    issues: [{ code: 'invalid_type', path: '/buildId' }],
  })
})

t.test('checkEvent does not identify an event of another project or without an id', async (t) => {
  t.match(checkEvent('p', { projectId: 'other', eventId: 'e' }), {
    eventId: 'e',
    isIdentified: false,
    issues: [{ code: 'project_mismatch' }],
  })
  t.match(checkEvent('p', { projectId: 'p' }), { eventId: null, isIdentified: false, issues: [{ code: 'required' }] })
  t.match(checkEvent('p', 5), { eventId: null, isIdentified: false, issues: [{ code: 'not_object' }] })
})
