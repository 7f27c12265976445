import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { parseEvents } from '../../src/events/batch.ts'
import { eventIssues, identityIssues, isObject, knownFields } from '../../src/events/event.ts'
import { type ParsedEvent, parseBatch } from '../../src/events/parse-batch.ts'
import { sliceEvents } from '../../src/json/json-scanner.ts'
import { escaped, member, number, space, spaced, string, value } from '../json-text.ts'

const names = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]

/** What parsing throws, or what it returns. */
function outcomeOf<T>(parse: () => T): T | string {
  try {
    return parse()
  } catch (error) {
    if (error instanceof IngestError) return `${error.code}: ${error.message} ${error.actual}`
    throw error
  }
}

/** How deep the bytes of JSON nest. */
function levelsOf(json: string): number {
  let [levels, most] = [0, 0]
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === '[' || token === '{') most = Math.max(most, ++levels)
    else if (token === ']' || token === '}') levels--
  }
  return most
}

/** Parses as `JSON.parse` does, and finds the same faults in the events. */
function agrees(text: string | Buffer): void {
  const body = Buffer.from(text)
  const parsed = outcomeOf(() => parseBatch(body))
  const expected = outcomeOf(() => parseEvents(body))
  if (typeof parsed === 'string' || typeof expected === 'string') {
    assert.equal(parsed, expected)
    return
  }
  const slices = sliceEvents(body)
  assert.deepEqual(
    parsed.map(({ start, end }) => ({ start, end })),
    slices,
  )
  for (const [i, { event, start, end, tooDeepAt }] of parsed.entries()) {
    const whole: unknown = expected[i]
    assert.deepEqual(identityIssues(event, 'p'), identityIssues(whole, 'p'))
    if (!isObject(whole) || !event) {
      assert.equal(isObject(whole), event !== undefined)
      continue
    }
    const isDeep = levelsOf(body.toString('utf8', start, end)) > 32
    assert.equal(tooDeepAt !== undefined, isDeep)
    const shallow = ({ code }: { code: string }) => code !== 'too_deep'
    assert.deepEqual(eventIssues(event, tooDeepAt).filter(shallow), eventIssues(whole).filter(shallow))
    for (const name of names) {
      const mine: unknown = event[name]
      const theirs: unknown = whole[name]
      if (typeof theirs === 'object' && theirs !== null) assert.equal(Array.isArray(mine), Array.isArray(theirs))
      else assert.deepEqual(mine, theirs)
    }
    assert.deepEqual(Object.keys(event).sort(), names.filter((name) => Object.hasOwn(whole, name)).sort())
  }
}

const parse = (...events: string[]) => parseBatch(Buffer.from(`{"events":[${events}]}`)) as ParsedEvent[]
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

t.test(
  'an event is its well-known members, the last of each name, without the content of objects and arrays',
  async (t) => {
    const [first, second] = parse(
      '{"eventId":"a","x":{"eventId":"b"},"typ\\u0065":"k\\n","bui\\u006CdId":"1","playerId":{"a":1},"serverId":[1],"eventId":"c"}',
      '[{"eventId":"d"}]',
    )
    t.strictSame(first?.event, { eventId: 'c', type: 'k\n', buildId: '1', playerId: {}, serverId: [] })
    t.equal(second?.event, undefined)
  },
)

t.test('depth is that of the bytes, also inside a member that a later one replaces', async (t) => {
  for (const [json, path] of [
    [`{"d":${nested(31)}}`, undefined],
    [`{"d":${nested(32)}}`, `/d${'/0'.repeat(31)}`],
    [`{"d":${nested(32)},"d":1}`, `/d${'/0'.repeat(31)}`],
    [`{"type":${nested(32)},"type":"a"}`, `/type${'/0'.repeat(31)}`],
    [
      `{"d":${nested(31)},"a/~b":[1,{"x":"[[","\\u0063":${nested(30)}},${nested(50)}]}`,
      `/a~1~0b/1/c${'/0'.repeat(29)}`,
    ],
    [`{"d":[${nested(30)},${nested(31)}]}`, `/d/1${'/0'.repeat(30)}`],
    [`{"d":[{},{"a":[]},"\\"[",${nested(31)}]}`, `/d/3${'/0'.repeat(30)}`],
    [`{"d":${nested(100_000)}}`, `/d${'/0'.repeat(31)}`],
  ] as const) {
    const [parsed, other] = parse(json, '{}')
    t.equal(parsed?.tooDeepAt, path, json.slice(0, 100))
    t.equal(other?.tooDeepAt, undefined)
  }
})

t.test('an envelope is read as JSON.parse reads it', async () => {
  for (const body of [
    '',
    ' ',
    '1',
    '"events"',
    '[]',
    '[',
    '{}',
    ' { } ',
    '{"events":1}',
    '{"events":[]}',
    '{"events":[1],"events":[2,3]}',
    '{"events":[1],"events":{}}',
    '{"events":{},"\\u0065vents":[{}]}',
    '{"event":[1],"a":{"events":[2]}}',
    '{"events":[]}}',
    '{"events":[],}',
    '{"events":[1,]}',
    '{"events":[,1]}',
    '{"events":[1 2]}',
    '{"events":[{"a":1,}]}',
    '{"events":[{"a" 1}]}',
    '{"events":[{a:1}]}',
    '{"events":[01,-,1.,.5,1e]}',
    '{"events":["\\x"]}',
    '{"events":["\t"]}',
    '{"events":["\\u00c4\\u00C4\\u00g0"]}',
    '{"events":["\\u00c4\\uFFFF"]}',
    '{"events":[tru]}',
    '{"events":[]} x',
    '{"events":[[}]}',
    '{"events":[{]]}',
    `{"events":[${new Array(100).fill(1)}]}`,
    `{"events":[${new Array(101).fill(1)}]}`,
    `{"events":[${new Array(101).fill(1)}],"x"}`,
    `{"events":[${new Array(101).fill('{}')}],"events":[]}`,
    nested(100_000),
    '['.repeat(100_000),
  ]) {
    agrees(body)
  }
})

const known = fc
  .constantFrom(...names, 'd')
  .chain((name) =>
    fc.constantFrom(
      `"${name}"`,
      `"${name}"`,
      `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`,
      `"${name}x"`,
    ),
  )
const deep = fc.nat(40).map(nested)
const knownValue = fc.oneof(value, string, number, deep, fc.constantFrom('"p"', '"2026-11-20T17:51:00Z"', '{}', '[]'))
const eventText = fc.array(member(known, knownValue), { maxLength: 8 }).map((members) => `{${members}}`)
const batchText = fc
  .array(fc.oneof({ weight: 4, arbitrary: eventText }, { weight: 1, arbitrary: value }), { maxLength: 5 })
  .chain((events) =>
    fc.array(member(string, value), { maxLength: 1 }).map((more) => `{${[...more, `"events":[${events}]`].join(',')}}`),
  )

t.test('of any JSON it makes what JSON.parse and the checks make', async () => {
  fc.assert(fc.property(spaced(batchText), agrees), { numRuns: 1000 })
})

t.test('of bytes that were changed anywhere it makes what JSON.parse and the checks make', async () => {
  const change = fc.record({
    at: fc.nat(),
    removed: fc.nat(3),
    inserted: fc.oneof(
      fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', '\u007f', '\n'),
      escaped,
      space,
    ),
  })
  fc.assert(
    fc.property(batchText, fc.array(change, { minLength: 1, maxLength: 3 }), (text, changes) => {
      let changed = text
      for (const { at, removed, inserted } of changes) {
        const index = at % (changed.length + 1)
        changed = changed.slice(0, index) + inserted + changed.slice(index + removed)
      }
      if (changed.isWellFormed()) agrees(changed)
    }),
    { numRuns: 2000 },
  )
})
