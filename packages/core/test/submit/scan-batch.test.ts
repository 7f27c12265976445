import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { compileScanner, outFile } from '../../assembly/build.js'
import { IngestError } from '../../src/error.ts'
import { eventIdBytesMax, type KnownField, knownFields } from '../../src/events/known-fields.ts'
import { parseBatch } from '../../src/events/parse-batch.ts'
import type { BatchEvents } from '../../src/store-types.ts'
import { decodeEvents, encodeEvents } from '../../src/submit/batch-events.ts'
import { classifyEvents } from '../../src/submit/classify-events.ts'
import { hashId, sipHash } from '../../src/submit/id-hash.ts'
import { scanBatch } from '../../src/submit/scan-batch.ts'
import { isTimestamp } from '../../src/validation.ts'

const projectId = 'pro_ject-1'
const start = `{"projectId":"${projectId}","eventId":"e-1"`
/** An event with these further members. */
const event = (...members: string[]) => `${[start, ...members]}}`
const withId = (eventId: string) => `{"projectId":"${projectId}","eventId":"${eventId}"}`
const batch = (...events: string[]) => `{"events":[${events}]}`
const knownNames = knownFields.map(({ name }) => name)

const hashKey = Buffer.from('0123456789abcdef')
const scan = (body: Buffer) => scanBatch(body, projectId, hashKey)

/** The events of a body by parseBatch and classifyEvents, if all of them are valid. */
function decide(body: Buffer): (BatchEvents & { isRepeating: boolean }) | undefined {
  try {
    const { unidentified, invalid, valid, repeated } = classifyEvents(projectId, parseBatch(body))
    if (unidentified.length + invalid.length > 0) return undefined
    return { ...encodeEvents(valid, hashKey), isRepeating: repeated.length > 0 }
  } catch (error) {
    if (error instanceof IngestError) return undefined
    throw error
  }
}

/** Accepted, with the same events. */
function accepts(body: string, message = body): void {
  const bytes = Buffer.from(body)
  const scanned = scan(bytes)
  assert.ok(scanned, `accepted: ${message}`)
  assert.deepEqual({ ...scanned, isRepeating: false }, decide(bytes), message)
}

/** Not accepted, because it is invalid. */
function refuses(body: string | Buffer, message = String(body)): void {
  const bytes = Buffer.from(body)
  assert.equal(decide(bytes), undefined, `not valid: ${message}`)
  assert.equal(scan(bytes), undefined, `not accepted: ${message}`)
}

/** Not accepted, although it is valid: left to parseBatch. */
function leaves(body: string, message = body): void {
  const bytes = Buffer.from(body)
  assert.ok(decide(bytes), `valid: ${message}`)
  assert.equal(scan(bytes), undefined, `not accepted: ${message}`)
}

t.test('an event has its id, its build, its type and its range', async (t) => {
  const body = Buffer.from(
    batch(
      `{"projectId":"${projectId}","eventId":"a","type":"kill","buildId":"2026.1","n":1}`,
      `{"eventId":"b","projectId":"${projectId}"}`,
      `{"buildId":null,"eventId":"c","projectId":"${projectId}"}`,
    ),
  )
  const scanned = scan(body) as BatchEvents
  t.strictSame(
    decodeEvents(body, scanned).map(({ start, end, idStart, idEnd, ...ids }) => [
      ids,
      JSON.parse(body.toString('utf8', start, end)).eventId,
    ]),
    [
      [{ eventId: 'a', buildId: '2026.1', type: 'kill' }, 'a'],
      [{ eventId: 'b' }, 'b'],
      [{ eventId: 'c' }, 'c'],
    ],
  )
  accepts(body.toString())
  const larger = Buffer.from(`[${body}]`)
  t.strictSame(scan(larger.subarray(1, -1)), scanned, 'a body may be a part of a larger buffer')
})

t.test('whitespace is allowed wherever JSON allows it', async () => {
  accepts(' { "events" : [ ] } ')
  const member = ['"projectId"', ':', `"${projectId}"`, ',', '"eventId"', ':']
  const list = ['"list"', ':', '[', '1', ',', '{', '"a"', ':', 'null', ',', '"b"', ':', '[', ']', '}', ']', '}']
  const tokens = [
    '{',
    '"events"',
    ':',
    '[',
    '{',
    ...member,
    '"a"',
    ',',
    ...list,
    ',',
    '{',
    ...member,
    '"b"',
    '}',
    ']',
    '}',
  ]
  for (const space of [' ', '\t', '\n', '\r', '\r\n  \t']) accepts(`${space}${tokens.join(space)}${space}`)
  for (let i = 0; i <= tokens.length; i++) {
    accepts([...tokens.slice(0, i), ' ', ...tokens.slice(i)].join(''))
    // no other character is whitespace
    for (const no of ['\v', '\f', '\0', '\u00a0', '\u2028', '\ufeff', '\u001f', '\u007f', '/**/']) {
      refuses([...tokens.slice(0, i), no, ...tokens.slice(i)].join(''))
    }
  }
})

t.test('ids and texts may have any characters', async () => {
  for (const text of [
    'é',
    'e\u0301',
    '日本',
    '🎮',
    '\u0080',
    '\u00a0',
    '\ufeff',
    '\u2028',
    ' ',
    "'",
    '/',
    '__proto__',
  ]) {
    accepts(batch(`{"projectId":"${projectId}","eventId":"${text}","buildId":"${text}","type":"${text}"}`))
    accepts(batch(event(`"${text}":"${text}"`)))
  }
})

t.test('escapes are accepted in unknown members, and left to parseBatch in known ones and in names', async () => {
  const escapes = '\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u0000 \\uD83C\\udfae \\ud800 \\u00Ff'.split(' ')
  for (const text of escapes) {
    accepts(batch(event(`"other":"${text}"`, '"more":[{"a":"}]"}]'), withId('b')))
    accepts(batch(event(`"other":{"${text}":["${text}"]}`)))
  }
  for (const name of knownNames.filter((name) => name !== 'timestamp')) {
    leaves(batch(event(`"${name}":"a\\u0062"`)))
    leaves(batch(event(`"${name}":"\\\\"`)))
  }
  leaves(batch(withId('\\u0061')))
  leaves(batch(event().replace('_', '\\u005f')))
  leaves(batch(event('"timestamp":"2026-11-20T17:51:00\\u005a"')))
  leaves(batch(event('"\\u0074ype":"a"')))
  leaves(batch(event('"\\n":1')))
  leaves(`{"\\u0065vents":[${event()}]}`)
  leaves(batch(event('"event\\u0049d":"b"')), 'an eventId in disguise')
  refuses(batch(event('"\\u0062uildId":5')))
  for (const id of ['\\u0000', '\\ud800']) refuses(batch(withId(id)))
  refuses(batch(event('"buildId":"\\u007f"')))
})

t.test('a known field accepts the values that its rule allows', async () => {
  const eventId: KnownField = { name: 'eventId', text: 'name', bytesMin: 1, bytesMax: eventIdBytesMax }
  for (const { name, text, bytesMin, bytesMax, integerMin } of [eventId, ...knownFields]) {
    const others = name === 'eventId' ? `{"projectId":"${projectId}"` : start
    const withValue = (value: string) => batch(`${others},"${name}":${value}}`)
    const allow = (isValid: boolean, ...values: string[]) => {
      for (const value of values) (isValid ? accepts : refuses)(withValue(value))
    }
    allow(false, 'true', 'false', '{}', '[]', '["a"]', '{"a":1}')
    allow(name !== 'eventId', 'null')
    allow(integerMin !== undefined, '0', '7', '920587237', '999999999999999')
    allow(integerMin !== undefined && integerMin < 0, '-7', '-999999999999999')
    allow(false, '9007199254740992', '-9007199254740992', '0.5', '1e400', '-1e-1')
    const isLeft = ['9007199254740991', '1000000000000000', '1e3', '1.0', '10E-1', '0e0']
    for (const odd of isLeft) (integerMin === undefined ? refuses : leaves)(withValue(odd))
    if (text === 'timestamp') continue
    allow(true, `"${'x'.repeat(bytesMax)}"`, `"${'é'.repeat(bytesMax / 2)}"`, '"x"')
    allow(false, `"${'x'.repeat(bytesMax + 1)}"`, `"x${'é'.repeat(bytesMax / 2)}"`)
    allow(bytesMin === 0, '""')
    // control characters are escaped, DEL is not
    allow(text !== 'name', '"x\u007f"')
  }
  for (const no of ['null', '1']) refuses(batch(`{"projectId":${no},"eventId":"a"}`))
})

t.test('a timestamp is an RFC 3339 time, to the day and the minute, or milliseconds since 1970', async () => {
  const check = (time: string) => (isTimestamp(time) ? accepts : refuses)(batch(event(`"timestamp":"${time}"`)))
  for (const year of ['0000', '1900', '2000', '2024', '2026', '2100', '9999']) {
    for (let month = 0; month <= 13; month++) {
      for (const day of ['00', '01', '28', '29', '30', '31', '32']) {
        check(`${year}-${String(month).padStart(2, '0')}-${day}T00:00:00Z`)
      }
    }
  }
  const clocks = '23:59:59 24:00:00 00:60:00 00:00:60 00:00:61 0a:00:00 00:00:0/ 00-00-00'.split(' ')
  for (const clock of clocks) check(`2026-11-20T${clock}Z`)
  const zones = 'Z z +00:00 -23:59 .1Z +24:00 +00:60 +0100 +1:00 .Z . .1 ZZ .1.1Z \u2212'.split(' ')
  for (const zone of [...zones, '', ' Z', 'Z ', `.${'0'.repeat(40)}+01:00`]) check(`2026-11-20T17:51:00${zone}`)
  for (const time of ['', '2026-11-20', '2026-11-20T17:51:00', 'é', '2024-02-29t23:59:60.123456789+14:00']) check(time)
  for (const ms of ['0', '1795203225083']) accepts(batch(event(`"timestamp":${ms}`)))
  refuses(batch(event('"timestamp":-1')))
  leaves(batch(event('"timestamp":1795203225083.0')))
})

t.test('bytes of an earlier, longer batch are not read', async () => {
  const events = batch(event())
  for (let end = events.length; end > 0; end--) {
    accepts(`${events}${' '.repeat(end)}`)
    refuses(events.slice(0, end - 1))
  }
})

t.test('a batch may have any size up to the limit', async () => {
  const around = batch(event('"a":""')).length
  const filled = (bytes: number) => batch(event(`"a":"${'x'.repeat(bytes - around)}"`))
  for (let bytes = 100; bytes < 140; bytes++) accepts(filled(bytes))
  for (const bytes of [65_536, 262_143, 262_144]) accepts(filled(bytes), `${bytes} bytes`)
  leaves(filled(262_145), '262,145 bytes')
  accepts(`{"events":[]${' '.repeat(262_131)}}`, 'space')
  refuses(`{"events":["${'x'.repeat(262_132)}`, 'a string without an end')
  refuses(`{"events":[{"a":${'['.repeat(262_128)}`, 'arrays without an end')
})

t.test('each build is returned once', async (t) => {
  const builds = ['a', 'b', 'a', 'x'.repeat(128), undefined, 'b', 'x'.repeat(127), 'a', null, 'é']
  const toEvent = (buildId: unknown, i: number) => JSON.stringify({ projectId, eventId: `e-${i}`, buildId })
  const body = batch(...builds.map(toEvent))
  accepts(body)
  t.strictSame(scan(Buffer.from(body))?.builds, ['a', 'b', 'x'.repeat(128), 'x'.repeat(127), 'é'])
  accepts(batch(...Array.from({ length: 100 }, (_, i) => toEvent(`b-${i}`, i))), '100 builds')
})

t.test('events may have other keys than the one before, or other whitespace around them', async () => {
  for (let shift = 0; shift < 40; shift++) {
    const events = Array.from({ length: 20 }, (_, i) => {
      const n = i + shift
      const nested = `"n":{"${'k'.repeat(n % 17)}":1,"k":[{}]}`
      const members = [`"eventId":"e-${i}"`, `"projectId":"${projectId}"`, `"${'k'.repeat(n % 20)}":${n}`, '"type":"t"']
      const turned = [...members, nested, ...members].slice((i * shift) % 5).slice(0, 5)
      return `{${turned.join(i % 3 === 0 ? ' , ' : ',')}}`
    })
    accepts(batch(...events))
  }
  const many = Array.from({ length: 300 }, (_, i) => `"k${i}":{"a":${i}}`)
  accepts(batch(event(...many), `{${many},"eventId":"b","projectId":"${projectId}"}`), '300 keys')
  for (let i = 0; i < 3; i++) {
    const events = [0, 1, 0, 2, 20, 3, 9].map((count, id) => {
      const [a, b, c] = ['', '', ''].with(i, ' '.repeat(count))
      return `{"projectId":"${projectId}","eventId":"e-${id}",${a}"n"${b}:${c}{"a":0,${a}"b"${b}:${c}1}}`
    })
    accepts(batch(...events))
  }
})

t.test('a known key counts only as a member of the event itself', async () => {
  const others = (count: number) => Array.from({ length: count }, (_, i) => `"a${i}":1`)
  const nested = (count: number, key: string, id = 'e') =>
    `{"projectId":"${projectId}","eventId":"${id}","n":{${[...others(count), `"${key}":[]`]}}}`
  for (const name of knownNames) {
    for (let count = 1; count < 6; count++) {
      const valid = `{${[...others(count), `"${name}":null`, `"projectId":"${projectId}"`, '"eventId":"b"']}}`
      accepts(batch(nested(count, name), valid))
      refuses(batch(nested(count, name), valid.replace('null', '[]')))
      accepts(batch(valid, nested(count, name), nested(count, 'a', 'c')))
    }
  }
  accepts(batch(event('"nested":{"eventId":1,"projectId":2,"buildId":3,"events":[4]}')))
  accepts(batch(event('"__proto__":{"buildId":5}', '"constructor":1')))
  const similar = [
    'Type',
    'types',
    'typ',
    'buildid',
    'buildId ',
    'eventID',
    'tipe',
    'xuildId',
    '',
    'timestamps',
    '4ype',
  ]
  for (const name of [...similar, 'x'.repeat(1000)]) accepts(batch(event(`"${name}":true`)))
})

t.test('a batch for an invalid project id is not accepted', async (t) => {
  const scanFor = (id: string) =>
    scanBatch(Buffer.from(batch(JSON.stringify({ projectId: id, eventId: 'a' }))), id, hashKey)
  for (const id of ['', 'é', 'a"b', 'x'.repeat(65), 'a b']) t.equal(scanFor(id), undefined)
  t.ok(scanFor('x'.repeat(64)))
})

t.test('repeated members and ids are left to parseBatch', async () => {
  for (const name of knownNames) {
    leaves(batch(event(`"${name}":null`, `"${name}":null`)))
    refuses(batch(event(`"${name}":null`, `"${name}":true`)))
  }
  leaves(batch(event('"eventId":"b"')))
  leaves(batch(event(`"projectId":"${projectId}"`)))
  refuses(batch(event('"eventId":5')))
  refuses(batch(event('"projectId":"other"')))
  accepts(batch(event('"other":1', '"other":2', '"more":{"a":1,"a":2}')), 'unknown members may repeat')
  leaves(batch(event(), event('"a":1'), withId('b'), event()))
  const events = Array.from({ length: 99 }, (_, i) => withId(`e-${i + 2}`))
  for (const i of [0, 1, 50, 98]) leaves(batch(...events, events[i] as string), `the first and event ${i}`)
})

t.test('a batch has up to 100 events in an envelope without other members', async () => {
  const events = Array.from({ length: 101 }, (_, i) => withId(`e-${i}`))
  accepts(batch(...events.slice(1)), '100')
  refuses(batch(...events), '101')
  refuses(`{"events":[${events.join(' , ')}]}`, '101')
  leaves(`{"events":[${event()}],"more":1}`)
  leaves(`{"more":1,"events":[${event()}]}`)
  leaves(`{"events":[],"events":[${event()}]}`)
  leaves(`{"events":[${event()}],"\\u0065vents":[]}`)
  leaves(`{"events":[],"":0}`)
  refuses(`{"events":[${event()}],"events":5}`)
  for (const body of ['', ' ', '{}', '[]', 'null', '{"event":[]}', '{"events":{}}', '{"events":null}', '{"events"}']) {
    refuses(body)
  }
  for (const body of ['{"events" []}', '{events:[]}', "{'events':[]}", '"events":[]', '{"events":[]', '{"events":[}']) {
    refuses(body)
  }
})

t.test('an event is an object of the project with an id', async () => {
  for (const no of ['1', 'null', '"a"', '[]', '{}', `[${event()}]`, 'true', '']) {
    refuses(batch(no, event()))
    refuses(batch(event(), no))
  }
  refuses(batch('{"eventId":"a"}'))
  refuses(batch(`{"projectId":"${projectId}"}`))
  const others = ['other', '', projectId.slice(0, -1), `${projectId}x`, projectId.toUpperCase(), ` ${projectId}`]
  for (const other of others) refuses(batch(`{"projectId":"${other}","eventId":"a"}`))
})

t.test('an event nests at most 32 levels deep', async () => {
  const nested = (levels: number, [open, close]: string, inside = '') =>
    batch(event(`"a":${open?.repeat(levels)}${inside}${close?.repeat(levels)}`))
  accepts(nested(31, '[]'))
  refuses(nested(32, '[]'))
  refuses(nested(100_000, '[]'), 'does not exhaust the stack')
  for (const inside of ['{}', '[]', '{"a":1}']) {
    accepts(nested(30, '[]', inside))
    refuses(nested(31, '[]', inside))
  }
  const objects = (levels: number) => `"a":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  const mixed = (levels: number) => `"a":${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`
  accepts(batch(event(objects(31))))
  accepts(batch(event(mixed(30))))
  for (const member of [objects(32), mixed(32)]) {
    refuses(batch(event(member)))
    refuses(batch(event(member, '"a":1')), 'too deep, also where another replaces it')
  }
})

/** Contexts of a value: an unknown member, a known member, and nested. */
const contexts: ((value: string) => string)[] = [
  (value) => batch(event(`"a":${value}`)),
  (value) => batch(event(`"a":${value}`, '"b":1')),
  (value) => batch(event(`"playerId":${value}`)),
  (value) => batch(event(`"a":[${value}]`)),
  (value) => batch(event(`"a":[1,${value},2]`)),
  (value) => batch(event(`"a":{"b":${value}}`)),
  (value) => batch(event(`"a":{"b":1,"c":${value},"d":[]}`)),
]

t.test('values are those of JSON', async () => {
  const yes = `0 -0 10 0.0 -0.50 1e5 1E+05 1e-0 12.34E-56 1e999 ${'9'.repeat(400)} true false null`
  for (const value of yes.split(' ')) {
    accepts(batch(event(`"a":${value}`)))
    accepts(batch(event(`"a":[${value}]`)))
  }
  const numbers =
    '01 -01 00 - --1 +1 1. .5 -.5 1.e5 1e 1E+ 1e- 1e5.5 1e+-5 1.2.3 0x1 1_0 NaN Infinity -Infinity 1n １ 1a'
  const literals = 'True TRUE tru truee trux t fals falsey False nul nulll nil n Null undefined truefalse nan a'
  const strings = `" "a 'a' "a"b" "a"" """" "\\" "\\\\\\" "\\x" "\\0" "\\'" "\\U0041" "\\u" "\\u1" "\\u12" "\\u123" "\\u123g"`
  const escapes = '"\\uG234" "\\u{61}" "\\ 1- 0- 1e5e5 １0 () <>'
  const arrays = '[ ] [1 [1, [1,] [,] [,1] [1,,2] [1} [:] [1:2] []] [[]'
  const objects =
    '{ } {"a" {"a"} {"a":} {"a":1 {"a":1, {"a":1,} {,} {a:1} {1:1} {"a":1,,"b":2} {"a":1] {"a"::1} {"a":1:2} {"a",1} {null:1} {[]:1} {:1} {}} {{}}'
  const spaced = ['- 1', '1 2', 'null null', 'tr ue', '"\\u12 4"', '"\\ u0061"', '[1 2]', '{"a" 1}', '{"a":1 "b":2}']
  const no = [numbers, literals, strings, escapes, arrays, objects].flatMap((texts) => texts.split(' '))
  for (const value of [...no, ...spaced]) for (const inContext of contexts) refuses(inContext(value))
})

t.test('control characters are escaped in strings, and DEL is not in a name', async () => {
  for (let byte = 0; byte < 0x20; byte++) {
    const character = String.fromCharCode(byte)
    for (const inContext of contexts) refuses(inContext(`"${character}"`))
    refuses(batch(event(`"${character}":1`)))
    refuses(batch(withId(`a${character}`)))
    refuses(batch(event(`"a":"\\${character}"`)))
  }
  for (const name of ['projectId', 'eventId', ...knownNames, 'other']) {
    for (const nul of ['\0', '\0\0', '\0"a"'])
      refuses(batch(event(`"${name}":${nul}`)), `a NUL as the value of ${name}`)
  }
  refuses(batch(event('"buildId":"a"'), `{"projectId":"${projectId}","eventId":"b","buildId":\0}`))
  accepts(batch(event('"a\u007f":"\u007f"')))
})

t.test('a truncated batch and one with trailing bytes are refused', async () => {
  const usual = batch(
    event(
      '"type":"kill"',
      '"timestamp":"2026-11-20T17:51:00Z"',
      '"buildId":"2026.1"',
      '"placeId":1',
      '"at":[1.5,-2e3]',
    ),
    `{"projectId":"${projectId}", "eventId":"日本", "note":"a\\n\\u00e9", "nested":{"a":{},"b":[true,false,null]}}`,
  )
  accepts(usual)
  const bytes = Buffer.from(usual)
  for (let end = 0; end < bytes.length; end++) refuses(bytes.subarray(0, end), `the first ${end} bytes`)
  for (const junk of ['}', ']', ',', '{}', '0', '"', 'null', '\0', '\u00a0', ';', '{"events":[]}']) {
    refuses(`${usual}${junk}`)
    refuses(`${usual} ${junk}`)
    refuses(`${junk}${usual}`)
  }
})

t.test('the committed scanner is compiled from its source', async (t) => {
  t.ok((await compileScanner()) === readFileSync(outFile, 'utf8'), 'otherwise: node assembly/build.js')
})

t.test('a batch has the same result without WebAssembly', async (t) => {
  const core = new URL(`../../src/index${extname(import.meta.url)}`, import.meta.url)
  const program = `
    import { createIngest, openMemoryStore } from '${core}'
    const ingest = createIngest({ store: openMemoryStore() }).project('p')
    const events = [{ eventId: 'a' }, { eventId: 'b', type: 5 }, { eventId: 'c' }].map((e) => ({ projectId: 'p', ...e }))
    const submit = (events) => ingest.submitBatch(Buffer.from(JSON.stringify({ events })))
    const results = [await submit([events[0], events[2]]), await submit(events)]
    console.log(JSON.stringify({ isMissing: typeof WebAssembly === 'undefined', results }))
  `
  const submitWith = async (...options: string[]) => {
    const node = promisify(execFile)(process.execPath, [...options, '--input-type=module', '--eval', program])
    return JSON.parse((await node).stdout)
  }
  const [without, usual] = [await submitWith('--jitless'), await submitWith()]
  t.strictSame([without.isMissing, usual.isMissing], [true, false])
  t.match(usual.results, [{ accepted: 2 }, { accepted: 0, duplicates: 2, rejected: [{ index: 1 }] }])
  t.strictSame(without.results, usual.results)
})

const hex = ([high, low]: [number, number]) => [high, low].map((word) => word.toString(16).padStart(8, '0')).join('')

t.test('the hash of an id is its SipHash-1-3', async (t) => {
  // python3.11 -c "print(hex(hash('abc'.encode()) & (2**64 - 1)))" with PYTHONHASHSEED=0, a key of zeros, and with 42
  const texts = ['a', 'abc', 'abcdefgh', '0123456789abcdef', 'é'.repeat(5), 'x'.repeat(63)]
  const ofSeed0 =
    '407448d2b89b1813 c03bc3a0042630f2 3f7b849c0b8e35ea 1d42b30f7e060c24 fcbe08246c25f830 1c308a9f11b6a742'
  const ofSeed42 =
    'fe4a47335692551e 35b382d0c5d675e9 b441be6d79f21056 fb45b65d4dce0272 f9b7aa6e69dccdb2 fc2f59550af19247'
  for (const hash of [hashId, sipHash]) {
    const hashesOf = (key: Uint8Array) => texts.map((text) => hex(hash(key, text))).join(' ')
    t.equal(hashesOf(new Uint8Array(16)), ofSeed0)
    t.equal(hashesOf(pythonKey(42)), ofSeed42)
  }
})

/** The key that Python derives from a seed: `lcg_urandom` of its Python/bootstrap_hash.c. */
function pythonKey(seed: number): Uint8Array {
  let state = seed
  return Uint8Array.from({ length: 16 }, () => {
    state = (Math.imul(state, 214_013) + 2_531_011) | 0
    return (state >>> 16) & 0xff
  })
}

t.test('the hash is the same with WebAssembly and without', async (t) => {
  const lengths = Array.from({ length: 301 }, (_, length) => 'abcdefghijk'.repeat(30).slice(0, length))
  for (const text of [...lengths, '\ud800', '\udc00a', '\0', '🎮'.repeat(100), 'é'.repeat(200_000)]) {
    t.strictSame(hashId(hashKey, text), sipHash(hashKey, text))
  }
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.string({ unit: 'binary' }), (key, text) => {
      t.strictSame(hashId(key, text), sipHash(key, text))
    }),
  )
})
