import { encodeEvents } from '@ingest/core/internal'
import fc from 'fast-check'
import t from 'tap'
import { byteaArray, int2Array, int4Array, int8Array, textArray } from '../../src/connection/binary-arrays.ts'
import { joinedBytes, splitEvents, writeEvents } from '../../src/events/batch-body.ts'
import { eventKey } from '../../src/events/event-key.ts'
import { noPostgres, openTestServer, runSql } from '../database.ts'

/** The joined events of a batch as it was received, each after some other bytes. */
function joined(events: readonly { before: string; text: string }[]): string {
  const parts: Buffer[] = []
  let at = 0
  const slices = events.map(({ before, text }) => {
    const [other, bytes] = [Buffer.from(before), Buffer.from(text)]
    parts.push(other, bytes)
    at += other.length + bytes.length
    return { eventId: '', start: at - bytes.length, end: at, idStart: 0, idEnd: 0 }
  })
  const body = Buffer.concat([...parts, Buffer.from(']}')])
  const rows = encodeEvents(slices, Buffer.alloc(16))
  const out = Buffer.alloc(joinedBytes(rows) + 2, '#')
  const end = writeEvents(out, 1, body, rows)
  if (end !== out.length - 1 || out[0] !== 0x23 || out[end] !== 0x23) throw new Error('bytes beside it were written')
  return out.toString('utf8', 1, end)
}

t.test('joined events are split byte for byte', async () => {
  // compact JSON, other JSON, and after an invalid event
  const before = fc.constantFrom(',', ', \n', ',null,')
  const event = fc.record({ before, text: fc.json().filter((json) => json !== '') })
  fc.assert(
    fc.property(fc.array(event, { minLength: 1, maxLength: 5 }), (given) => {
      const events = splitEvents(joined(given))
      const expected = given.map(({ text }, index) => ({ index, bytes: Buffer.from(text) }))
      return JSON.stringify(events) === JSON.stringify(expected)
    }),
  )
})

t.test('events that were known before are empty and keep their index', async (t) => {
  const indexes = (text: string) => splitEvents(text).map(({ index, bytes }) => `${index}:${bytes}`)
  t.strictSame(indexes('{}\x1e{"a":1}'), ['0:{}', '1:{"a":1}'])
  t.strictSame(indexes('\x1e{}'), ['1:{}'])
  t.strictSame(indexes('{}\x1e\x1e\x1e[]\x1e'), ['0:{}', '3:[]'])
  t.strictSame(indexes(''), [])
})

t.test('an escaped separator is part of its event', async (t) => {
  const texts = ['"\\u001e"', '"é\u2028"']
  t.strictSame(
    splitEvents(joined(texts.map((text) => ({ before: ',', text })))).map(({ bytes }) => String(bytes)),
    texts,
  )
})

t.test('a lower-case UUID has a key of 17 bytes, every other id a key of its text', async (t) => {
  const uuid = '0190f3a2-7b1c-7d3e-8f40-00ff5c1e7a2b'
  const digits = uuid.replaceAll('-', '')
  t.strictSame(eventKey(uuid).toString('hex'), `01${digits}`)
  const others = [
    ...[uuid.toUpperCase(), uuid.replace('f', 'F'), `{${uuid}}`, `urn:uuid:${uuid}`, digits, ` ${uuid}`, `${uuid}\n`],
    ...[uuid.replace('-', '_'), uuid.replace('a', 'g'), uuid.slice(1), `${uuid.slice(0, -1)}ｂ`],
    // ids with the bytes of a key
    ...[`\x01${digits}`, eventKey(uuid).toString('latin1'), '', '\x00', 'é', 'e\u0301'],
  ]
  for (const id of others) t.strictSame(eventKey(id), Buffer.from(`\x02${id}`), JSON.stringify(id))
})

t.test('two ids have the same key only if they are the same', async () => {
  const hex = fc.constantFrom(...'0aAfF')
  const id = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 4 }),
    fc.uuid(),
    fc
      .array(hex, { minLength: 32, maxLength: 32 })
      .map((digits) => digits.join('').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')),
  )
  fc.assert(fc.property(id, id, (a, b) => eventKey(a).equals(eventKey(b)) === (a === b)))
})

const numbers = {
  int2: [0, 1, -1, 32_767, -32_768],
  int4: [0, -1, 2 ** 31 - 1, -(2 ** 31)],
  int8: [0, 1, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, -(2 ** 32), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
}
const texts = ['', 'a"b\\{},', 'NULL', '𝄞\u001e']
const arrays: [type: string, encode: (values: never[]) => Buffer, values: unknown[], asText: string[]][] = [
  ['int2', int2Array, numbers.int2, numbers.int2.map(String)],
  ['int4', int4Array, numbers.int4, numbers.int4.map(String)],
  ['int8', int8Array, numbers.int8, numbers.int8.map(String)],
  ['text', textArray, texts, texts],
  ['bytea', byteaArray, [Buffer.of(0, 255, 92), new Uint8Array(0)], ['\\x00ff5c', '\\x']],
]

t.test('PostgreSQL reads an array as it was written', { skip: noPostgres }, async (t) => {
  const url = await openTestServer()
  for (const [type, encode, values, asText] of arrays) {
    for (const [given, expected] of [
      [values, asText],
      [[], []],
    ] as const) {
      const sql = `SELECT e.value::text FROM unnest($1::${type}[]) WITH ORDINALITY AS e(value, no) ORDER BY e.no`
      const rows = await runSql<{ value: string }>(url, sql, [encode(given as never[])])
      t.strictSame(
        rows.map(({ value }) => value),
        expected,
        type,
      )
      // the length and the lower bound, which functions rely on
      const bounds = `SELECT cardinality(a) AS length, array_lower(a, 1) AS lower FROM (SELECT $1::${type}[]) AS t(a)`
      const shape = { length: given.length, lower: given.length === 0 ? null : 1 }
      t.strictSame(await runSql(url, bounds, [encode(given as never[])]), [shape], type)
    }
  }
})
