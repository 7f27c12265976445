import t from 'tap'
import { Type } from 'typebox'
import { Format } from 'typebox/format'
import { createRun } from '../../src/schemas/check.ts'
import { compileSchema } from '../../src/schemas/compile-schema.ts'
import type { JsonObject } from '../../src/validation.ts'

function compile(schema: object) {
  return compileSchema(schema as JsonObject, (at, mistake) => {
    throw new SyntaxError(`#${at} ${mistake}`)
  })
}

/** All issues of a value. */
function issuesOf(schema: object, value: unknown): string[] {
  const run = createRun(1e9)
  compile(schema)(value, run)
  return run.issues.map(({ code, path }) => `${code} ${path}`)
}

t.test('a mistake is refused with its JSON Pointer', async (t) => {
  const nested = (depth: number, inside: unknown): JsonObject =>
    (depth === 0 ? inside : { items: nested(depth - 1, inside) }) as JsonObject
  const chain = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]))
  const mistakes: [schema: JsonObject, mistake: string][] = [
    [{ required: 'x' }, '#/required expects a list of names'],
    [{ required: ['x', 'x'] }, '#/required expects different names'],
    [{ properties: { 'a/b': { minLength: '3' } } }, '#/properties/a~1b/minLength expects an integer of at least 0'],
    [{ items: { anyOf: [{}, { type: 'strnig' }] } }, '#/items/anyOf/1/type is the unknown type "strnig"'],
    [{ type: 'constructor' }, '#/type is the unknown type "constructor"'],
    [{ type: [] }, '#/type expects different names of types'],
    [{ properties: [] }, '#/properties expects an object with schemas'],
    [{ properties: { a: 'string' } }, '#/properties/a expects a schema: an object, true or false'],
    [{ allOf: [] }, '#/allOf expects at least one schema'],
    [{ enum: [] }, '#/enum expects a list of at least one value'],
    [{ $defs: { unused: { maximum: '1' } } }, '#/$defs/unused/maximum expects a number'],
    [{ format: 'emial' }, '#/format is the unknown format "emial"'],
    [{ pattern: '(' }, '#/pattern is a regular expression that cannot be used: '],
    [{ pattern: '^(?=a)' }, '#/pattern is a regular expression that cannot be used: look-ahead'],
    [{ patternProperties: { '(a)\\1': {} } }, '#/patternProperties/(a)\\1 is a regular expression that cannot be used'],
    [{ propertyNames: { pattern: 'a{5000}' } }, '#/propertyNames/pattern is a regular expression that cannot be used'],
    [{ minimun: 3 }, '#/minimun is not a keyword that is supported'],
    [{ dependencies: {} }, '#/dependencies is not a keyword that is supported: use dependentRequired'],
    [{ $dynamicRef: '#a' }, '#/$dynamicRef is not a keyword that is supported'],
    [{ else: {} }, '#/else has no effect without "if"'],
    [{ maxContains: 1 }, '#/maxContains has no effect without "contains"'],
    [{ $schema: 'http://json-schema.org/draft-04/schema#' }, '#/$schema names another version than'],
    [{ title: 7 }, '#/title has a value of the wrong type'],
    [{ $ref: '#/$defs/nope' }, '#/$ref refers to no schema of this document'],
    [{ $ref: '#/properties', properties: {} }, '#/$ref refers to no schema of this document'],
    [{ $ref: 'https://schemas.example/other.json' }, '#/$ref refers to no schema of this document'],
    [{ $ref: 7 }, '#/$ref expects a URI reference'],
    [{ $ref: '#' }, '#/$ref is a loop of references'],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, '#/$defs/b/$ref is a loop of references'],
    [{ anyOf: [{ type: 'string' }, { allOf: [{ $ref: '#' }] }] }, '#/anyOf/1/allOf/0/$ref is a loop of references'],
    [nested(40, {}), `#${'/items'.repeat(33)} has more than 32 schemas inside each other`],
    [{ $defs: { ...chain, d40: {} } }, '/$ref applies more than 32 schemas to one value after each other'],
  ]
  for (const [schema, mistake] of mistakes) {
    t.throws(() => compile(schema), { message: new RegExp(mistake.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')) }, mistake)
  }
  const circle: JsonObject = {}
  circle.not = circle
  t.throws(() => compile(circle), /more than 32 schemas inside each other/)
})

t.test('keywords of JSON Schema 2020-12, of older drafts and of TypeBox are checked', async (t) => {
  const List = Type.Cyclic(
    { List: Type.Object({ value: Type.Integer(), next: Type.Optional(Type.Ref('List')) }) },
    'List',
  )
  const closed = Type.Intersect([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })], {
    unevaluatedProperties: false,
  })
  const cases: [schema: object, valid: unknown[], ...invalid: [value: unknown, ...issues: string[]][]][] = [
    [Type.Tuple([Type.String(), Type.Integer()]), [['a', 1]], [['a'], 'too_short '], [['a', 1, 2], 'not_allowed /2']],
    [List, [{ value: 1, next: { value: 2 } }], [{ value: 1, next: { value: 'x' } }, 'invalid_type /next/value']],
    [closed, [{ a: '', b: '' }], [{ a: '', b: '', c: '' }, 'not_allowed /c'], [{ a: '' }, 'required /b']],
    [Type.Record(Type.String(), Type.Integer()), [{}, { a: 1 }], [{ a: 'x' }, 'invalid_type /a']],
    [
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        definitions: { a: { type: 'null' } },
        $ref: '#/definitions/a',
      },
      [null],
      [1, 'invalid_type '],
    ],
    [
      { items: { $ref: '#item' }, $defs: { x: { $anchor: 'item', type: 'string' } } },
      [['a']],
      [[1], 'invalid_type /0'],
    ],
    [
      { $id: 'https://e.example/root', $ref: 'other', $defs: { x: { $id: '/other', type: 'string' } } },
      ['a'],
      [1, 'invalid_type '],
    ],
    [{ $defs: { 'a b': { type: 'string' } }, $ref: '#/$defs/a%20b', maxLength: 1 }, ['a'], ['ab', 'too_long ']],
    [
      { properties: { a: false, b: true, c: { $ref: '#/properties/a' } } },
      [{ b: 1 }],
      [{ a: 1, c: 1 }, 'not_allowed /a', 'not_allowed /c'],
    ],
    [
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      { if: { required: ['a'] }, then: { required: ['b'] }, else: { required: ['c'] } },
      [{ a: 1, b: 1 }, { c: 1 }],
      [{ a: 1 }, 'required /b'],
      [{}, 'required /c'],
    ],
    [{ dependentRequired: { a: ['b', 'c'] } }, [{}, { a: 1, b: 1, c: 1 }], [{ a: 1 }, 'required /b', 'required /c']],
    [{ dependentSchemas: { a: { maxProperties: 1 } } }, [{ a: 1 }, { b: 1, c: 1 }], [{ a: 1, b: 1 }, 'too_long ']],
    [{ propertyNames: { maxLength: 1 } }, [{ a: 1 }], [{ ab: 1 }, 'not_allowed /ab']],
    [{ contains: { const: 1 }, maxContains: 1 }, [[1, 2]], [[1, 1], 'not_allowed '], [[], 'not_allowed ']],
    [
      { required: ['constructor', '__proto__'] },
      [JSON.parse('{"constructor":1,"__proto__":2}')],
      [{}, 'required /constructor', 'required /__proto__'],
    ],
    [
      { properties: { toString: { type: 'string' } } },
      [{}, { toString: 'a' }],
      [{ toString: 1 }, 'invalid_type /toString'],
    ],
    [
      { additionalProperties: false, properties: { a: true } },
      [{ a: 1 }],
      [JSON.parse('{"__proto__":1}'), 'not_allowed /__proto__'],
    ],
    [
      { uniqueItems: true },
      [[1, '1', '="1', true, null, {}, []]],
      [
        [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
        'not_allowed ',
      ],
      [[0, -0], 'not_allowed '],
    ],
    [
      { enum: [{ a: [1] }, 'x', 0] },
      [{ a: [1] }, 'x', -0],
      [{ a: [2] }, 'not_allowed '],
      ['=0', 'not_allowed '],
      [null, 'not_allowed '],
    ],
    [{ enum: Array.from({ length: 5000 }, (_, i) => `e${i}`) }, ['e4999'], ['e5000', 'not_allowed ']],
    [{ maxLength: 2 }, ['🎮🎮'], ['🎮🎮🎮', 'too_long '], ['abc', 'too_long ']],
    [{ minLength: 2 }, ['🎮🎮', 'ab'], ['🎮', 'too_short ']],
    [{ multipleOf: 0.1 }, [0.3, 1e300], [0.35, 'out_of_range ']],
    [{ type: 'number' }, [2 ** 60], [JSON.parse('1e400'), 'invalid_type ']],
    [
      { format: 'date-time', 'x-note': 'mine', examples: [{ $ref: 'no' }], default: {} },
      [1, '2026-11-20T17:51:00Z'],
      ['x', 'invalid_format '],
    ],
  ]
  for (const [schema, valid, ...invalid] of cases) {
    for (const value of valid) t.strictSame(issuesOf(schema, value), [], JSON.stringify([schema, value]))
    for (const [value, ...issues] of invalid) t.strictSame(issuesOf(schema, value), issues, JSON.stringify(schema))
  }
})

t.test('the formats of an embedder and the functions of Type.Refine are called', async (t) => {
  Format.Set('even', (text) => text.length % 2 === 0)
  t.teardown(() => Format.Reset())
  t.strictSame(issuesOf({ format: 'even' }, 'a'), ['invalid_format '])
  const refined = Type.Refine(
    Type.String(),
    (text) => text !== 'no',
    () => 'No.',
  )
  t.strictSame(issuesOf({ properties: { a: refined } }, { a: 'no' }), ['not_allowed /a'])
  t.strictSame(issuesOf({ properties: { a: refined } }, { a: 'yes' }), [])
})
