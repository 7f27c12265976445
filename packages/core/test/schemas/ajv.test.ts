import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { type Check, createRun } from '../../src/schemas/check.ts'
import { compileSchema } from '../../src/schemas/compile-schema.ts'
import type { JsonObject } from '../../src/validation.ts'
import { createRandom, type Random, seeds } from './random.ts'

// Compares with Ajv on random schemas and values. Left out, because the results differ on purpose:
// - format: Ajv's formats are a separate package, and those of TypeBox differ in details
// - multipleOf: here 0.3 is a multiple of 0.1; in Ajv 1e20 is a multiple of 3
// - the names `__proto__`, `constructor` and ``: Ajv does not check them, treats them as evaluated, and never as missing
// - `contains` of an empty array, which Ajv treats as met after some other keywords
// - `unevaluatedItems` with `contains`, whose elements Ajv does not treat as evaluated, and `unevaluatedProperties` with
//   `anyOf`, `oneOf` and `if`, where Ajv treats the members of invalid branches as evaluated
// - look-around and back-references in patterns, dynamic references, and `items` with a list: only one of both has them

type Schema = JsonObject | boolean

const names = ['a', 'b', 'aa', 'c~/d']
const patterns = ['^a', 'b$', '.', '^(a|aa)+$', '[0-9]']

function value(random: Random, depth = 3): unknown {
  switch (random.number(depth > 0 ? 8 : 5)) {
    case 0:
      return random.oneOf([null, true, false])
    case 1:
      return random.oneOf([0, -0, 1, 2, 3, -1, 1.5, 1e20, 2 ** 53])
    case 2:
    case 3:
      return random.oneOf(['', 'a', 'b', 'aa', 'ab', '1', '🎮', '🎮🎮', 'é'])
    case 4:
      return random.oneOf([[], {}])
    case 5:
      return random.list(4, () => value(random, depth - 1))
    default:
      return members(random, () => value(random, depth - 1))
  }
}

function members(random: Random, make: () => unknown): JsonObject {
  return Object.fromEntries(random.list(3, () => [random.oneOf(names), make()]))
}

/** At least one. */
function some<Value>(random: Random, most: number, make: () => Value): Value[] {
  return [make(), ...random.list(most - 1, make)]
}

const keywords: Record<string, (random: Random, schema: () => Schema) => unknown> = {
  $ref: (random) => random.oneOf(['#', '#/$defs/a', '#/$defs/b', '#here']),
  additionalProperties: (_, schema) => schema(),
  allOf: (random, schema) => some(random, 2, schema),
  anyOf: (random, schema) => some(random, 3, schema),
  const: (random) => value(random),
  contains: (_, schema) => schema(),
  dependentRequired: (random) => members(random, () => [...new Set(random.list(2, () => random.oneOf(names)))]),
  dependentSchemas: (random, schema) => members(random, schema),
  else: (_, schema) => schema(),
  enum: (random) => some(random, 4, () => value(random)),
  exclusiveMaximum: (random) => random.number(4),
  exclusiveMinimum: (random) => random.number(4),
  if: (_, schema) => schema(),
  items: (_, schema) => schema(),
  maxContains: (random) => random.number(3),
  maximum: (random) => random.number(4),
  maxItems: (random) => random.number(4),
  maxLength: (random) => random.number(4),
  maxProperties: (random) => random.number(4),
  minContains: (random) => random.number(3),
  minimum: (random) => random.number(4),
  minItems: (random) => random.number(3),
  minLength: (random) => random.number(3),
  minProperties: (random) => random.number(3),
  multipleOf: (random) => random.oneOf([1, 2, 4]),
  not: (_, schema) => schema(),
  oneOf: (random, schema) => some(random, 3, schema),
  pattern: (random) => random.oneOf(patterns),
  patternProperties: (random, schema) => Object.fromEntries(random.list(2, () => [random.oneOf(patterns), schema()])),
  prefixItems: (random, schema) => some(random, 3, schema),
  properties: (random, schema) => members(random, schema),
  propertyNames: (_, schema) => schema(),
  required: (random) => [...new Set(random.list(2, () => random.oneOf(names)))],
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: (_, schema) => schema(),
  type: (random) => random.oneOf(['array', 'integer', 'null', 'number', 'object', 'string', ['boolean', 'object']]),
  unevaluatedItems: (_, schema) => schema(),
  unevaluatedProperties: (_, schema) => schema(),
  uniqueItems: (random) => random.oneOf([true, true, false]),
}

/** Random choices, and the keywords that a schema has. */
type SchemaRandom = Random & { keywords: readonly string[] }

function createSchemaRandom(seed: number): SchemaRandom {
  const excluded = seed % 2 === 0 ? /^unevaluated/ : /contains$|^(anyOf|oneOf|if|then|else)$/i
  return { ...createRandom(seed), keywords: Object.keys(keywords).filter((keyword) => !excluded.test(keyword)) }
}

function randomSchema(random: SchemaRandom, depth: number): Schema {
  if (random.number(8) === 0) return random.number(4) > 0
  const chosen = random.list(depth > 0 ? 4 : 2, () => random.oneOf(random.keywords))
  const schema: JsonObject = {}
  for (const keyword of chosen) {
    schema[keyword] = keywords[keyword]?.(random, () => (depth > 0 ? randomSchema(random, depth - 1) : true))
  }
  for (const [keyword, companion] of [
    ['then', 'if'],
    ['else', 'if'],
    ['minContains', 'contains'],
    ['maxContains', 'contains'],
  ]) {
    if (keyword && companion && schema[keyword] !== undefined)
      schema[companion] ??= keywords[companion]?.(random, () => randomSchema(random, 0))
  }
  // Ajv ignores an `if` alone, whose members count as evaluated
  const { then: whenValid = true } = schema
  if (schema.if !== undefined && whenValid === true) Object.assign(schema, JSON.parse('{"then":{"maximum":1e30}}'))
  if (schema.contains !== undefined) schema.minItems = 1
  return schema
}

function randomRoot(random: SchemaRandom): JsonObject {
  const schema = randomSchema(random, 3)
  const $defs = { a: randomSchema(random, 1), b: { $anchor: 'here', ...(randomSchema(random, 1) as JsonObject) } }
  return { ...(typeof schema === 'boolean' ? { not: !schema } : schema), $defs }
}

/** Compiles a schema, or returns why it is refused. */
function compile(schema: JsonObject): Check | string {
  try {
    return compileSchema(schema, (at, mistake) => {
      throw new SyntaxError(`#${at} ${mistake}`)
    })
  } catch (error) {
    if (error instanceof SyntaxError) return error.message
    throw error
  }
}

function isValid(check: Check, value: unknown): boolean {
  const run = createRun(1e9)
  run.quiet = 1
  return check(value, run)
}

/** Whether issues are collected or not, a value is valid or not. */
function isValidAloud(check: Check, value: unknown): boolean {
  const run = createRun(1e9)
  try {
    return check(value, run)
  } catch {
    return run.issues.length === 0
  }
}

/** Undefined if Ajv fails: its code for `unevaluatedProperties` throws, once in some ten thousand schemas. */
function answerOf(validate: () => boolean): boolean | undefined {
  try {
    return validate()
  } catch (error) {
    if (error instanceof TypeError || error instanceof ReferenceError) return undefined
    throw error
  }
}

/** Shared: a new one takes 30 ms. */
const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false, ownProperties: true })

t.test('random values are valid under random schemas if Ajv says so', async (t) => {
  let compared = 0
  for (const seed of seeds(400)) {
    const random = createSchemaRandom(seed)
    const schema = randomRoot(random)
    const check = compile(schema)
    if (typeof check === 'string') {
      assert.match(check, /loop of references/, `seed ${seed}`)
      continue
    }
    ajv.removeSchema()
    const validate = ajv.compile(schema)
    for (let i = 0; i < 10; i++) {
      const each = JSON.parse(JSON.stringify(value(random)))
      const message = `seed ${seed}: ${JSON.stringify(schema)} ${JSON.stringify(each)}`
      const expected = answerOf(() => validate(each))
      if (expected === undefined) continue
      assert.equal(isValid(check, each), expected, message)
      assert.equal(isValidAloud(check, each), expected, message)
      compared++
    }
  }
  t.comment(`${compared} values compared, from seed ${seeds(1)[0]} on`)
})

t.test('a schema that the metaschema of 2020-12 refuses is refused', async (t) => {
  let refused = 0
  for (const seed of seeds(400)) {
    const random = createSchemaRandom(seed)
    const schema = randomRoot(random)
    const keyword = random.oneOf([...Object.keys(keywords), 'title', '$id', '$anchor', '$comment', 'deprecated'])
    schema[keyword] = random.oneOf([
      null,
      true,
      -1,
      1.5,
      '',
      'x',
      '(',
      '#',
      ['x', 'x'],
      [1],
      [],
      {},
      { a: 1 },
      { a: ['x', 'x'] },
    ])
    // a tuple in the syntax of TypeBox and older drafts
    if (Array.isArray(schema.items)) continue
    const check = compile(schema)
    const mistake = `seed ${seed}: ${keyword} ${JSON.stringify(schema[keyword])}: ${check}`
    if (!ajv.validateSchema(schema)) {
      assert.equal(typeof check, 'string', mistake)
      refused++
    } else if (typeof check === 'string')
      assert.match(
        check,
        /loop of|not a keyword|no effect|no schema of|regular exp|at least one value|of another schema|URI/,
        mistake,
      )
  }
  t.comment(`${refused} schemas refused by both`)
})
