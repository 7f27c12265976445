import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { Settings } from 'typebox/system'
import {
  type CheckBySchema,
  compileEventSchemas as compile,
  type EventSchemas,
} from '../../src/events/event-schemas.ts'

const compileEventSchemas = (schemas: EventSchemas) => compile(schemas) as CheckBySchema
const faults = (schema: TSchema, event: object) =>
  compileEventSchemas({ t: schema })({ type: 't', ...event }).map(({ code, path }) => `${code} ${path}`)

t.test('an event of a type without a schema is not looked at', async (t) => {
  const check = compileEventSchemas({ kill: Type.Object({ weapon: Type.String() }) })
  for (const type of [undefined, null, 'other', 'toString', '__proto__', 1]) t.strictSame(check({ type }), [])
  t.equal(compile({}), undefined)
  t.equal(check({ type: 'kill' }).length, 1)
})

t.test('a schema is TypeBox or plain JSON Schema', async (t) => {
  const plain = { type: 'object', required: ['n'], properties: { n: { type: 'integer', minimum: 0 } } }
  for (const schema of [Type.Object({ n: Type.Integer({ minimum: 0 }) }), plain]) {
    t.strictSame(faults(schema, { n: 1, other: 'x' }), [])
    t.strictSame(faults(schema, {}), ['required /n'])
    t.strictSame(faults(schema, { n: '1' }), ['invalid_type /n'])
    t.strictSame(faults(schema, { n: -1 }), ['out_of_range /n'])
  }
})

t.test('each fault has a code of the closed set and a path to the value', async (t) => {
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
    t.strictSame(faults(Type.Object({ x: schema }), { x: value }), [`${code} /x`], JSON.stringify(schema))
  }
  t.strictSame(faults(Type.Object({ x: list }), { x: [1, 'a'] }), ['invalid_type /x/1'])
})

t.test('each missing member is named', async (t) => {
  const schema = Type.Object({ a: Type.String(), b: Type.Object({ 'c/d': Type.String(), e: Type.String() }) })
  t.strictSame(faults(schema, {}), ['required /a', 'required /b'])
  t.strictSame(faults(schema, { a: '', b: {} }), ['required /b/c~1d', 'required /b/e'])
})

t.test('each further member is named once where none is allowed', async (t) => {
  const schema = Type.Object({ type: Type.String(), a: Type.Integer() }, { additionalProperties: false })
  t.strictSame(faults(schema, { a: 1 }), [])
  t.strictSame(faults(schema, { a: 1, 'x~y': 1, z: 2 }), ['not_allowed /x~0y', 'not_allowed /z'])
  t.strictSame(faults(schema, { z: 2 }).sort(), ['not_allowed /z', 'required /a'])
})

t.test('a schema for further members is what they are held to', async (t) => {
  const schema = Type.Object({ type: Type.String() }, { additionalProperties: Type.Integer() })
  t.strictSame(faults(schema, { a: 1 }), [])
  t.strictSame(faults(schema, { a: 'x', 'b/c': 'y' }), ['invalid_type /a', 'invalid_type /b~1c'])
})

t.test('what a schema allows never is not allowed', async (t) => {
  const schemas = [
    { properties: { x: false } },
    { patternProperties: { '^x': false } },
    { properties: { type: true }, additionalProperties: false },
    { properties: { x: { not: {} } } },
  ]
  for (const schema of schemas) {
    t.strictSame(faults(schema, {}), [])
    t.strictSame(faults(schema, { x: 1 }), ['not_allowed /x'], JSON.stringify(schema))
  }
  t.strictSame(faults({ properties: { additionalProperties: false } }, { additionalProperties: 1 }), [
    'not_allowed /additionalProperties',
  ])
  t.strictSame(faults({ properties: { x: { items: false } } }, { x: [1] }), ['not_allowed /x/0'])
})

t.test('a union that fits nowhere is one fault', async (t) => {
  const schema = Type.Object({ x: Type.Union([Type.String(), Type.Object({ a: Type.Integer(), b: Type.Integer() })]) })
  t.strictSame(faults(schema, { x: 'a' }), [])
  t.strictSame(faults(schema, { x: { a: 1, b: 2 } }), [])
  t.strictSame(faults(schema, { x: 5 }), ['not_allowed /x'])
  t.strictSame(faults(schema, { x: { a: 'x', b: 'y' } }), ['not_allowed /x'])
})

t.test('a fault beside a union, or with its name before it, is still a fault', async (t) => {
  const union = Type.Union([Type.String(), Type.Null()])
  t.strictSame(faults(Type.Object({ x: union, xy: Type.Integer() }), { x: 1, xy: 'a' }).sort(), [
    'invalid_type /xy',
    'not_allowed /x',
  ])
})

t.test('an event has at most 20 issues of a schema', async (t) => {
  const members = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`m${i}`, Type.Integer()]))
  const wrong = Object.fromEntries(Object.keys(members).map((name) => [name, 'x']))
  t.equal(faults(Type.Object(members), wrong).length, 20)
  t.equal(faults(Type.Object(members), {}).length, 20)
})

t.test("the embedder's own settings of TypeBox are left as they were", async (t) => {
  const { maxErrors } = Settings.Get()
  t.teardown(() => Settings.Set({ maxErrors }))
  Settings.Set({ maxErrors: 3 })
  faults(Type.Object({ a: Type.Integer() }), {})
  t.equal(Settings.Get().maxErrors, 3)
})

t.test('a message is a sentence', async (t) => {
  const check = compileEventSchemas({ t: Type.Object({ a: Type.Integer(), b: Type.String({ minLength: 3 }) }) })
  for (const { message } of check({ type: 't', a: 'secret', b: 'x' })) {
    t.match(message, /^[A-Z].*\.$/)
    t.notMatch(message, 'secret')
  }
})

t.test('a schema that does not compile is refused at once', async (t) => {
  const schema = { type: 'string', pattern: '(' }
  t.throws(() => compileEventSchemas({ t: schema }), { code: 'invalid-argument', message: /"t"/ })
})
