import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { Settings } from 'typebox/system'
import type { IngestEvent } from '../../src/events/event.ts'
import {
  type CheckBySchema,
  compileEventSchemas as compile,
  type EventSchemas,
} from '../../src/events/event-schemas.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { JsonObject } from '../../src/validation.ts'

function compileEventSchemas(schemas: EventSchemas) {
  const check = compile(schemas) as CheckBySchema
  return (event: JsonObject) => check(event, JSON.stringify(event).length)
}
const issuesOf = (schema: TSchema, event: object) =>
  compileEventSchemas({ t: schema })({ type: 't', ...event }).map(({ code, path }) => `${code} ${path}`)

t.test('an event of a type without a schema is not checked', async (t) => {
  const check = compileEventSchemas({ kill: Type.Object({ weapon: Type.String() }) })
  for (const type of [undefined, null, 'other', 'toString', '__proto__', 1]) t.strictSame(check({ type }), [])
  t.equal(compile({}), undefined)
  t.equal(check({ type: 'kill' }).length, 1)
})

t.test('a schema is TypeBox or plain JSON Schema', async (t) => {
  const plain = { type: 'object', required: ['n'], properties: { n: { type: 'integer', minimum: 0 } } }
  for (const schema of [Type.Object({ n: Type.Integer({ minimum: 0 }) }), plain]) {
    t.strictSame(issuesOf(schema, { n: 1, other: 'x' }), [])
    t.strictSame(issuesOf(schema, {}), ['required /n'])
    t.strictSame(issuesOf(schema, { n: '1' }), ['invalid_type /n'])
    t.strictSame(issuesOf(schema, { n: -1 }), ['out_of_range /n'])
  }
})

t.test('each issue has a code of the closed set and the path of its value', async (t) => {
  const list = Type.Array(Type.Integer(), { minItems: 1, maxItems: 2 })
  const cases: [TSchema, unknown, string][] = [
    [Type.String({ minLength: 2 }), 'a', 'too_short'],
    [Type.String({ maxLength: 2 }), 'abc', 'too_long'],
    [Type.String({ pattern: '^a' }), 'b', 'invalid_format'],
    [Type.String({ format: 'email' }), 'b', 'invalid_format'],
    [Type.Number({ maximum: 1 }), 2, 'out_of_range'],
    [Type.Number({ exclusiveMinimum: 1 }), 1, 'out_of_range'],
    [Type.Number({ exclusiveMaximum: 1 }), 1, 'out_of_range'],
    [Type.Number({ multipleOf: 2 }), 3, 'out_of_range'],
    [Type.Boolean(), 0, 'invalid_type'],
    [Type.Null(), 0, 'invalid_type'],
    [list, [], 'too_short'],
    [list, [1, 2, 3], 'too_long'],
    [Type.Object({}, { minProperties: 1 }), {}, 'too_short'],
    [Type.Object({}, { maxProperties: 1 }), { a: 1, b: 2 }, 'too_long'],
    [Type.Literal('a'), 'b', 'not_allowed'],
    [Type.Enum(['a', 'b']), 'c', 'not_allowed'],
    [Type.Array(Type.Integer(), { uniqueItems: true }), [1, 1], 'not_allowed'],
  ]
  for (const [schema, value, code] of cases) {
    t.strictSame(issuesOf(Type.Object({ x: schema }), { x: value }), [`${code} /x`], JSON.stringify(schema))
  }
  t.strictSame(issuesOf(Type.Object({ x: list }), { x: [1, 'a'] }), ['invalid_type /x/1'])
})

t.test('each missing, additional or forbidden member is an issue, and each union without a match', async (t) => {
  const missing = Type.Object({ a: Type.String(), b: Type.Object({ 'c/d': Type.String(), e: Type.String() }) })
  const closed = Type.Object({ type: Type.String(), a: Type.Integer() }, { additionalProperties: false })
  const integers = Type.Object({ type: Type.String() }, { additionalProperties: Type.Integer() })
  const union = Type.Union([Type.String(), Type.Object({ a: Type.Integer(), b: Type.Integer() })])
  const beside = Type.Object({ x: union, xy: Type.Integer() })
  const cases: [schema: TSchema, event: object, ...issues: string[]][] = [
    [missing, {}, 'required /a', 'required /b'],
    [missing, { a: '', b: {} }, 'required /b/c~1d', 'required /b/e'],
    [closed, { a: 1 }],
    [closed, { a: 1, 'x~y': 1, z: 2 }, 'not_allowed /x~0y', 'not_allowed /z'],
    [closed, { z: 2 }, 'not_allowed /z', 'required /a'],
    [integers, { a: 1 }],
    [integers, { a: 'x', 'b/c': 'y' }, 'invalid_type /a', 'invalid_type /b~1c'],
    [beside, { x: 'a', xy: 1 }],
    [beside, { x: { a: 1, b: 2 }, xy: 1 }],
    [beside, { x: 5, xy: 1 }, 'not_allowed /x'],
    [beside, { x: { a: 'x', b: 'y' }, xy: 'a' }, 'invalid_type /xy', 'not_allowed /x'],
    [{ properties: { additionalProperties: false } }, { additionalProperties: 1 }, 'not_allowed /additionalProperties'],
    [{ properties: { x: { items: false } } }, { x: [1] }, 'not_allowed /x/0'],
  ]
  for (const schema of [
    { properties: { x: false } },
    { patternProperties: { '^x': false } },
    { properties: { type: true }, additionalProperties: false },
    { properties: { x: { not: {} } } },
  ]) {
    cases.push([schema, {}], [schema, { x: 1 }, 'not_allowed /x'])
  }
  for (const [schema, event, ...issues] of cases)
    t.strictSame(issuesOf(schema, event).sort(), issues, JSON.stringify(schema))
})

t.test('a schema reports at most 20 issues', async (t) => {
  const members = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`m${i}`, Type.Integer()]))
  const wrong = Object.fromEntries(Object.keys(members).map((name) => [name, 'x']))
  t.equal(issuesOf(Type.Object(members), wrong).length, 20)
  t.equal(issuesOf(Type.Object(members), {}).length, 20)
})

t.test("the embedder's settings of TypeBox do not change", async (t) => {
  const { maxErrors } = Settings.Get()
  t.teardown(() => Settings.Set({ maxErrors }))
  Settings.Set({ maxErrors: 3 })
  issuesOf(Type.Object({ a: Type.Integer() }), {})
  t.equal(Settings.Get().maxErrors, 3)
})

t.test('a message is a sentence', async (t) => {
  const check = compileEventSchemas({ t: Type.Object({ a: Type.Integer(), b: Type.String({ minLength: 3 }) }) })
  for (const { message } of check({ type: 't', a: 'secret', b: 'x' })) {
    t.match(message, /^[A-Z].*\.$/)
    t.notMatch(message, 'secret')
  }
})

t.test('a schema that does not compile is an invalid argument', async (t) => {
  const schema = { type: 'string', pattern: '(' }
  t.throws(() => compileEventSchemas({ t: schema }), { code: 'invalid-argument', message: /"t"/ })
})

t.test('a schema without mistakes compiles', async () => {
  for (const schema of [
    {},
    Type.Object({ weapon: Type.String(), at: Type.Optional(Type.String({ format: 'date-time' })) }),
    Type.Union([Type.Literal('a'), Type.Null(), Type.Integer()]),
    { type: ['string', 'null'], enum: ['x'], const: { type: 'anything' }, examples: [{ $ref: 'no' }] },
    { properties: { child: { $ref: '#' }, other: { $ref: '#/$defs/a~1b' } }, $defs: { 'a/b': {} } },
    { $ref: 'point', $defs: { point: { $id: 'point' } } },
    { $ref: '#here', $defs: { point: { $anchor: 'here' } } },
  ]) {
    compile({ t: schema })
  }
})

t.test('a mistake in a schema is an invalid argument that names the type and the JSON Pointer', async (t) => {
  const mistakes: [unknown, RegExp][] = [
    [
      { properties: { a: { items: { type: ['string', 'nul'] } } } },
      /"t": #\/properties\/a\/items\/type is the unknown type "nul"/,
    ],
    [{ required: 'x' }, /"t": #\/required expects a list of names/],
    [{ $defs: { a: { $ref: '#/$defs/a' } } }, /"t": #\/\$defs\/a\/\$ref is a loop of references/],
    ...[undefined, null, 'x', 7, true].map((schema): [unknown, RegExp] => [schema, /"t" is not an object/]),
  ]
  for (const [schema, message] of mistakes) {
    t.throws(() => compile({ t: schema as TSchema }), { code: 'invalid-argument', message })
  }
})

/** Schemas that look harmless, and events that make each of them expensive. */
const hostile: [name: string, schema: TSchema, member: unknown, issue: string | RegExp][] = [
  ['equal items', { uniqueItems: true }, Array(30_000).fill(1), 'not_allowed /x'],
  ['different items', { uniqueItems: true }, range(30_000), ''],
  ['wrong items', { items: { type: 'string' } }, Array(100_000).fill(1), /^invalid_type \/x\/0$/],
  [
    'a pattern with nested repetition',
    { pattern: '^([A-Za-z0-9]+[ _-]?)+$' },
    `${'a'.repeat(27)}!`,
    'invalid_format /x',
  ],
  ['a pattern with many states', { pattern: '(a|b)*a(a|b){200}c' }, irregular(50_000), 'too_complex /x'],
  ['patterns of names', { patternProperties: { '(k+)+$': { type: 'string' } } }, { [`${'k'.repeat(40)}!`]: 1 }, ''],
  ['names', { propertyNames: { pattern: '^(a+)+$' } }, { [`${'a'.repeat(40)}!`]: 1 }, /^not_allowed/],
  ['unions in each other', { $ref: '#/$defs/node' }, nested(28), /^too_complex \/x\/of\/of/],
  [
    'many unions of items',
    { items: { anyOf: range(50).map((n) => ({ const: `${n}` })) } },
    Array(50_000).fill('49'),
    /^too_complex \/x\/\d+$/,
  ],
  [
    'one object for many counts',
    { allOf: range(30).map(() => ({ minProperties: 1 })) },
    Object.fromEntries(range(20_000).map((n) => [`k${n}`, 1])),
    'too_complex /x',
  ],
  ['a long text of a format', { format: 'idn-hostname' }, 'a.'.repeat(100_000), 'too_complex /x'],
  ['lengths', { allOf: range(50).map(() => ({ minLength: 150_000 })) }, 'a'.repeat(200_000), 'too_complex /x'],
  [
    'lists in contains',
    { allOf: range(30).map(() => ({ not: { contains: { const: 'x' } } })) },
    Array(100_000).fill(1),
    'too_complex /x',
  ],
  [
    'comparisons with a large value',
    { allOf: range(30).map(() => ({ not: { const: [] } })) },
    range(20_000).map((n) => [n]),
    'too_complex /x',
  ],
  [
    'unevaluated elements of unions in each other',
    { ...range(28).reduce<object>((inner) => ({ anyOf: [inner] }), { items: true }), unevaluatedItems: false },
    Array(20_000).fill('a'),
    'too_complex /x',
  ],
  ['branches that are false', { items: { not: { anyOf: range(5000).map(() => false) } } }, range(1000), /^too_complex/],
  [
    'unevaluated members',
    { allOf: range(5).map(() => ({ patternProperties: { '^k': true } })), unevaluatedProperties: false },
    Object.fromEntries(range(20_000).map((n) => [`k${n}`, 1])),
    'too_complex /x',
  ],
]

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

/** A text of a and b without a period. */
function irregular(length: number): string {
  return range(length)
    .map((n) => (Math.sin(n * n) > 0 ? 'a' : 'b'))
    .join('')
}

function nested(levels: number): unknown {
  return levels === 0 ? 1 : { of: nested(levels - 1) }
}

const kinds = ['and', 'or'].map((kind) => ({
  type: 'object',
  properties: { kind: { const: kind }, of: { $ref: '#/$defs/node' } },
}))

t.test('an expensive event is rejected before its cost is paid', async (t) => {
  for (const [name, schema, x, issue] of hostile) {
    const $defs = { node: { anyOf: [...kinds, { type: 'string' }] } }
    const issues = issuesOf({ $defs, properties: { x: schema } }, { x })
    t.ok(issues.length <= 20, name)
    t.match(issues[0] ?? '', issue, name)
  }
})

t.test('an event of ordinary size is not too complex for ordinary schemas', async (t) => {
  const kinds = range(20).map((n) => ({
    properties: { kind: { const: `kind ${n}` }, n: { type: 'integer' } },
    required: ['kind', 'n'],
  }))
  const cases: [schema: TSchema, member: unknown][] = [
    [{ items: { type: 'number' } }, range(40_000)],
    [
      { items: { anyOf: kinds } },
      range(100).map((n) => ({ kind: `kind ${n % 20}`, n, more: 'something else to say of it' })),
    ],
    [
      { uniqueItems: true, items: { type: 'string', pattern: '^[a-z0-9-]{1,64}$' } },
      range(10_000).map((n) => `item-${n}`),
    ],
    [
      { additionalProperties: { type: 'integer', minimum: 0 } },
      Object.fromEntries(range(10_000).map((n) => [`player-${n}`, n])),
    ],
    [{ items: { anyOf: kinds.slice(0, 8) } }, range(100).map((n) => ({ kind: 'kind 7', n }))],
    [{ uniqueItems: true }, range(1000).map((n) => ({ id: n, name: `item ${n}` }))],
    [{ items: { format: 'uuid' } }, range(5000).map(() => '3f9c2ab0-0000-4000-8000-0123456789ab')],
    [{ items: { format: 'uri' } }, range(2000).map((n) => `https://cdn.example/assets/textures/${n}.png?size=large`)],
    [{ items: { enum: range(500).map((n) => `weapon ${n}`) } }, range(10_000).map((n) => `weapon ${n % 500}`)],
    [{ type: 'string', maxLength: 200_000, pattern: '^[\\p{L} ]+$' }, 'ab é '.repeat(30_000)],
  ]
  for (const [schema, x] of cases)
    t.strictSame(issuesOf({ properties: { x: schema } }, { x }), [], JSON.stringify(schema))
})

t.test('a recursive schema of any allowed depth does not exhaust the stack', async (t) => {
  // each level of the event goes through 31 references
  const $defs = Object.fromEntries(range(31).map((n) => [`d${n}`, { allOf: [{ $ref: `#/$defs/d${n + 1}` }] }]))
  const steps = Object.fromEntries(range(15).map((n) => [`d${n}`, $defs[`d${n}`]]))
  const last = { type: 'object', properties: { of: { $ref: '#/$defs/d0' } } }
  const schema = { $defs: { ...steps, d15: last }, properties: { x: { $ref: '#/$defs/d0' } } }
  t.strictSame(issuesOf(schema, { x: nested(31) }), [`invalid_type /x${'/of'.repeat(31)}`])
})

t.test('a function of a schema that throws fails the batch with an error that names the type', async (t) => {
  const schema = Type.Object({
    x: Type.Refine(
      Type.String(),
      () => {
        throw new TypeError('a bug')
      },
      () => '',
    ),
  })
  const ingest = createIngest({ store: openMemoryStore(), schemas: { kill: schema } })
  const batch = { events: [{ projectId: 'p', eventId: 'a', type: 'kill' as const, x: 'y' }] }
  const message = 'A function in the schema for events of type "kill" threw an error: TypeError: a bug'
  await t.rejects(ingest.project('p').submitBatch(batch), { code: 'internal-error', message })
})

t.test('TypeBox schemas type the events of submitBatch', async (t) => {
  const schemas = {
    'player.kill': Type.Object({ weapon: Type.String(), distance: Type.Optional(Type.Number()) }),
    'player.join': Type.Object({ playerId: Type.Integer() }),
  }
  const ingest = createIngest({ store: openMemoryStore(), schemas })
  const project = ingest.project('p')
  const { accepted } = await project.submitBatch({
    events: [
      { projectId: 'p', eventId: 'a', type: 'player.kill', weapon: 'sword', buildId: 'b', more: [1] },
      { projectId: 'p', eventId: 'b', type: 'player.join', playerId: 1 },
    ],
  })
  t.equal(accepted, 2)
  const ids = { projectId: 'p', eventId: 'c' }
  const { rejected } = await project.submitBatch({
    events: [
      // @ts-expect-error a weapon is a string
      { ...ids, type: 'player.kill', weapon: 5 },
      // @ts-expect-error a weapon is required
      { ...ids, type: 'player.kill' },
      // @ts-expect-error this event of another type has no playerId of its own
      { ...ids, type: 'player.join', playerId: 'x' },
      // @ts-expect-error buildId is a string in every event
      { ...ids, type: 'player.join', playerId: 1, buildId: 5 },
    ],
  })
  t.equal(rejected.length, 4)
  // @ts-expect-error no schema declares this type; at run time it is valid
  t.match(await project.submitBatch({ events: [{ ...ids, type: 'player.leave' }] }), { accepted: 1 })
  await ingest.close()
})

t.test('plain JSON Schema and no schemas leave further members untyped', async (t) => {
  const plain = createIngest({
    store: openMemoryStore(),
    schemas: { kill: { type: 'object', required: ['weapon'] } },
  })
  const events = [{ projectId: 'p', eventId: 'a', type: 'kill' as const, weapon: 5, more: true }]
  t.match(await plain.project('p').submitBatch({ events }), { accepted: 1 })
  // @ts-expect-error no schema declares this type
  t.match(await plain.project('p').submitBatch({ events: [{ ...events[0], type: 'x' }] }), { duplicates: 1 })

  const dynamic: EventSchemas = { kill: Type.Object({ weapon: Type.Integer() }) }
  for (const schemas of [undefined, {}, dynamic]) {
    const ingest = createIngest({ store: openMemoryStore(), ...(schemas && { schemas }) })
    const any: IngestEvent[] = [...events, { projectId: 'p', eventId: 'b', type: 'x', more: [] }]
    t.match(await ingest.project('p').submitBatch({ events: any }), { accepted: 2 })
    // @ts-expect-error an eventId is a string
    t.match(await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 1 }] }), { accepted: 0 })
    // @ts-expect-error every event has an eventId
    t.match(await ingest.project('p').submitBatch({ events: [{ projectId: 'p' }] }), { accepted: 0 })
  }
})
