import assert from 'node:assert/strict'
import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { batchBody, batchBytesMax, parseEvents } from '../../src/events/batch.ts'
import { eventIssues, identityIssues } from '../../src/events/event.ts'
import { type KnownField, knownFields } from '../../src/events/known-fields.ts'
import { parseBatch } from '../../src/events/parse-batch.ts'
import { closeBrace, comma } from '../../src/json/bytes.ts'
import type { BatchEvents } from '../../src/store-types.ts'
import { encodeEvents } from '../../src/submit/batch-events.ts'
import { classifyEvents } from '../../src/submit/classify-events.ts'
import { scanBatch } from '../../src/submit/scan-batch.ts'
import { isObject } from '../../src/validation.ts'
import { createRandom } from '../schemas/random.ts'

// Compares the scanner with parseBatch and classifyEvents, and parseBatch with JSON.parse, on random batches, most of
// them changed in a few bytes.
// INGEST_SCAN_BATCHES=3000000 runs more of them; a failure names its seed: INGEST_SCAN_BATCHES=1 INGEST_FIRST_SEED=1234.

const count = Number(process.env.INGEST_SCAN_BATCHES ?? 10_000)
const firstSeed = Number(process.env.INGEST_FIRST_SEED ?? 1)
t.setTimeout(600_000 + count)

const projectId = 'pro_ject-1'
const hashKey = Buffer.from('0123456789abcdef')

/** Replaced for each batch. */
let { number: random, oneOf } = createRandom(0)

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}

const spaces = ['', '', '', ' ', '\n', '\t', '\r\n', '  ', ' '.repeat(15), ' '.repeat(17)]
/** Whether the batch that is being generated has whitespace everywhere. */
let isSpaced = false
const space = () => (isSpaced ? oneOf(spaces) : '')
const digits = (length: number) => times(length, () => random(10)).join('')

const characters = [..."aZ0 /'{}[],:é日🎮\u0080\u2028\u007f"]
const escapes = '\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u0000 \\uD83C\\udfae \\u00e9 \\ud800'.split(' ')
const limits = [0, 1, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33, 127, 128, 129, 199, 200, 201, 255, 256, 257]

/** The text of a string, sometimes with escapes or of a length at a limit. */
function text(): string {
  switch (random(12)) {
    case 0:
      return 'x'.repeat(oneOf(limits))
    case 1:
      return `${'x'.repeat(random(2))}${'é'.repeat(oneOf(limits) >> 1)}`
    case 2:
      return times(random(4), () => oneOf(escapes)).join('')
    case 3:
      return times(random(20), () => oneOf(characters)).join('')
    default:
      return times(random(24), () => String.fromCharCode(97 + random(26))).join('')
  }
}

/** Mostly an id that no other event of the batch has. */
function id(): string {
  if (random(25) > 0) return `e-${random(2 ** 30).toString(36)}${'x'.repeat(random(40))}`
  return oneOf(['a', 'é', '日本', 'x'.repeat(256), 'x'.repeat(257), 'é'.repeat(128), '', 'a\u007f', '\\u0061', text()])
}

function number(): string {
  if (random(4) === 0) return `${oneOf(['', '-'])}${1 + random(9)}${digits(13 + random(4))}`
  const fraction = random(3) === 0 ? `.${digits(random(18))}` : ''
  const exponent = random(6) === 0 ? `${oneOf(['e', 'E'])}${oneOf(['', '-', '+'])}${digits(random(4))}` : ''
  return `${oneOf(['', '', '-'])}${random(5) === 0 ? digits(random(4)) : random(10 ** random(7))}${fraction}${exponent}`
}

function time(): string {
  if (random(12) > 0) return `"${new Date(random(2 ** 31) * 1000 + random(1000)).toISOString()}"`
  const two = (most: number) => String(random(most + 1)).padStart(2, '0')
  const fraction = oneOf(['', '.', `.${digits(1 + random(20))}`])
  const zone = oneOf(['Z', 'z', '+00:00', '-23:59', `+${two(25)}:${two(61)}`, '', '+0100'])
  return `"${two(21)}${two(99)}-${two(13)}-${two(33)}${oneOf(['T', 't', ' '])}${two(25)}:${two(61)}:${two(61)}${fraction}${zone}"`
}

function value(levels: number): string {
  const kind = random(levels > 0 ? 9 : 7)
  if (kind === 0) return oneOf(['true', 'false', 'null'])
  if (kind < 4) return number()
  if (kind < 7) return `"${text()}"`
  const items = times(random(4), () => (kind === 7 ? value(levels - 1) : member(`"${text()}"`, value(levels - 1))))
  const inside = items.map((item) => `${space()}${item}${space()}`).join(',')
  return kind === 7 ? `[${inside}${space()}]` : `{${inside}${space()}}`
}

function deepValue(): string {
  const steps = times(29 + random(5), () => oneOf([0, 1]))
  const opening = steps.map((step) => (step === 0 ? '[' : '{"a":')).join('')
  return `${opening}${oneOf(['1', '[]', '{}', '"a"'])}${steps
    .reverse()
    .map((step) => (step === 0 ? ']' : '}'))
    .join('')}`
}

function member(key: string, value: string): string {
  return `${space()}${key}${space()}:${space()}${value}${space()}`
}

/** A value that is mostly valid for a known field. */
function fieldValue({ text: kind, bytesMin, bytesMax, integerMin }: KnownField): string {
  const choice = random(60)
  if (choice === 0) return value(2)
  if (choice === 1) return `"${text()}"`
  if (choice < 5) return 'null'
  if (choice < 7 && kind !== 'timestamp') return `"${'x'.repeat(oneOf([bytesMin, bytesMax]) + random(2))}"`
  if (integerMin !== undefined && choice < 12) return choice < 11 ? String(random(2 ** 31)) : number()
  if (kind === 'timestamp') return time()
  return `"${oneOf(['build-1', 'build-2', 'place-17', 'a', `player-${random(1e6)}`, `session-${'x'.repeat(random(30))}`])}"`
}

function event(): string {
  if (random(150) === 0) return value(2)
  const members: string[] = []
  if (random(100) > 0)
    members.push(member('"projectId"', `"${random(100) > 0 ? projectId : `${projectId}${oneOf(['x', '\\n'])}`}"`))
  if (random(100) > 0) members.push(member('"eventId"', random(100) > 0 ? `"${id()}"` : value(1)))
  for (const field of knownFields) if (random(2) === 0) members.push(member(`"${field.name}"`, fieldValue(field)))
  const others = random(3)
  for (let i = 0; i < others; i++) members.push(member(oneOf(['"position"', '"properties"', `"${text()}"`]), value(3)))
  if (random(15) === 0) members.push(member('"deep"', deepValue()))
  if (random(30) === 0) {
    const again = oneOf(knownFields)
    members.push(member(`"${again.name}"`, fieldValue(again)))
  }
  if (random(60) === 0)
    members.push(member(oneOf(['"eventid"', '"types"', '"\\u0074ype"', '"event\\u0049d"']), value(1)))
  if (random(3) === 0) members.sort(() => random(3) - 1)
  return `{${members.join(',')}${members.length === 0 ? space() : ''}}`
}

const smallEvent = (index: number) => `{"projectId":"${projectId}","eventId":"e-${index}"}`

function batch(): string {
  isSpaced = random(3) === 0
  const isLarge = random(200) === 0
  const events = isLarge ? times(oneOf([99, 100, 101]), smallEvent) : times(random(6), event)
  const inside = events.map((each) => `${space()}${each}${space()}`).join(',')
  const head =
    random(100) > 0
      ? '{"events":['
      : oneOf(['{"events":{', '{"event":[', '{"a":1,"events":[', '[', '{"\\u0065vents":['])
  const tail = random(100) > 0 ? ']}' : oneOf(['],"events":[]}', ']', '}', ']}}', ']},', '],"a":1}'])
  const body = `${head}${inside}${tail}`
  if (!isSpaced) return body
  return `${space()}${body.replace('{"events":[', `{${space()}"events"${space()}:${space()}[`)}${space()}`
}

const signs = Buffer.from('{}[]",:\\/ \t\n\r0123456789+-.eEtruefalsnTZ\0\u001f\u007f')

/** The bytes with one change. */
function changed(bytes: Buffer): Buffer {
  const at = random(bytes.length + 1)
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  const sign = Buffer.of(random(8) > 0 ? (signs[random(signs.length)] as number) : random(256))
  switch (random(9)) {
    case 8: {
      // one byte in place of a value
      const start = bytes.indexOf(':', at) + 1
      const length = bytes.subarray(start).findIndex((byte) => byte === comma || byte === closeBrace)
      return Buffer.concat([bytes.subarray(0, start), sign, bytes.subarray(start + Math.max(0, length))])
    }
    case 0:
      return Buffer.concat([before, after.subarray(1 + random(3))])
    case 1:
      return Buffer.concat([before, sign, after])
    case 2:
      return Buffer.concat([before, after.subarray(1, 2), after.subarray(0, 1), after.subarray(2)])
    case 3:
      return before
    case 4: {
      // a range again
      const from = random(bytes.length + 1)
      return Buffer.concat([before, bytes.subarray(from, from + random(40)), after])
    }
    case 5: {
      const byte = after[0] ?? 0
      return Buffer.concat([before, Buffer.of(byte ^ (1 << random(7))), after.subarray(1)])
    }
    default:
      return Buffer.concat([before, sign, after.subarray(1)])
  }
}

/** The result of parseBatch and classifyEvents for a body: the events of a batch without faults and repeats. */
function decide(body: Buffer): BatchEvents | undefined {
  try {
    const { unidentified, invalid, valid, repeated } = classifyEvents(projectId, parseBatch(body))
    return unidentified.length + invalid.length + repeated.length > 0 ? undefined : encodeEvents(valid, hashKey)
  } catch (error) {
    if (error instanceof IngestError) return undefined
    throw error
  }
}

function bodyOf(bytes: Buffer): Buffer | undefined {
  try {
    return batchBody(bytes)
  } catch {
    // not UTF-8: never scanned
    return undefined
  }
}

const names = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]

/** The result or the error of parsing. */
function outcomeOf<T>(parse: () => T): T | string {
  try {
    return parse()
  } catch (error) {
    if (error instanceof IngestError) return `${error.code}: ${error.message} ${error.actual}`
    throw error
  }
}

/** The deepest nesting of JSON. */
function levelsOf(json: string): number {
  let [levels, most] = [0, 0]
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === '[' || token === '{') most = Math.max(most, ++levels)
    else if (token === ']' || token === '}') levels--
  }
  return most
}

/** parseBatch reads a body as JSON.parse does, and its events have the same issues. */
function agrees(body: Buffer): void {
  const parsed = outcomeOf(() => parseBatch(body))
  const expected = outcomeOf(() => parseEvents(body))
  if (typeof parsed === 'string' || typeof expected === 'string') {
    assert.equal(parsed, expected)
    return
  }
  assert.equal(parsed.length, expected.length)
  for (const [i, { event, start, end, tooDeepAt }] of parsed.entries()) {
    const whole: unknown = expected[i]
    assert.deepEqual(JSON.parse(body.toString('utf8', start, end)), whole)
    assert.deepEqual(identityIssues(event, projectId), identityIssues(whole, projectId))
    if (!isObject(whole) || !event) {
      assert.equal(isObject(whole), event !== undefined)
      continue
    }
    const isDeep = levelsOf(body.toString('utf8', start, end)) > 32
    assert.equal(tooDeepAt !== undefined, isDeep)
    const shallow = ({ code }: { code: string }) => code !== 'too_deep'
    assert.deepEqual(eventIssues(event, tooDeepAt).filter(shallow), eventIssues(whole, undefined).filter(shallow))
    for (const name of names) {
      const mine: unknown = event[name]
      const theirs: unknown = whole[name]
      if (typeof theirs === 'object' && theirs !== null) assert.equal(Array.isArray(mine), Array.isArray(theirs))
      else assert.deepEqual(mine, theirs)
    }
    assert.deepEqual(Object.keys(event).sort(), names.filter((name) => Object.hasOwn(whole, name)).sort())
  }
}

/** The events of a batch without any fault or repeat, which the scanner must accept however its members are ordered. */
function plainBatch(): string {
  const events = times(random(6), (index) => {
    const members: [string, unknown][] = [
      ['projectId', projectId],
      ['eventId', `e-${index}`],
      ...knownFields.filter(() => random(2) === 0).map(({ name }): [string, unknown] => [name, plainValue(name)]),
      ['properties', { at: [random(100), -1.5, true], note: oneOf(characters), nested: { empty: {} } }],
    ]
    return Object.fromEntries(members.sort(() => random(3) - 1))
  })
  return JSON.stringify({ events }, null, random(3))
}

function plainValue(field: string): unknown {
  if (random(8) === 0) return null
  if (field === 'timestamp') return oneOf([random(2 ** 45), new Date(random(2 ** 31) * 1000).toISOString()])
  return oneOf(['a', 'é', '日本', 'x'.repeat(128), `id-${random(1000)}`])
}

t.test('the scanner agrees with parseBatch, and parseBatch with JSON.parse', async (t) => {
  const results = { accepted: 0, left: 0, refused: 0, notUtf8: 0 }
  const mismatches: string[] = []
  for (let seed = firstSeed; seed < firstSeed + count && mismatches.length < 10; seed++) {
    ;({ number: random, oneOf } = createRandom(Math.imul(seed, 0x9e3779b1)))
    const isPlain = random(10) === 0
    // each offset of a vector
    let bytes: Buffer = Buffer.from(' '.repeat(random(32)) + (isPlain ? plainBatch() : batch()))
    if (!isPlain) for (let changes = Math.max(0, random(7) - 3); changes > 0; changes--) bytes = changed(bytes)
    const body = bytes.length <= batchBytesMax ? bodyOf(bytes) : undefined
    if (body === undefined) {
      results.notUtf8++
      continue
    }
    try {
      const scanned = scanBatch(body, projectId, hashKey)
      const decided = decide(body)
      if (scanned === undefined) results[decided === undefined ? 'refused' : 'left']++
      else results.accepted++
      if (scanned !== undefined || isPlain) assert.deepEqual(scanned, decided)
      agrees(body)
    } catch (error) {
      mismatches.push(`seed ${seed}: ${error}\n${body.toString('latin1')}`)
    }
  }
  t.strictSame(mismatches, [])
  t.comment(`${count} batches: ${JSON.stringify(results)}`)
  if (count >= 1000) {
    t.ok(results.accepted > count / 10, 'many are accepted')
    t.ok(results.refused > count / 10, 'many are refused')
  }
})
