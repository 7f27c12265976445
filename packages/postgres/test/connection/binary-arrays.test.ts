import t from 'tap'
import { byteaArray, int2Array, int4Array, int8Array, textArray } from '../../src/connection/binary-arrays.ts'
import { noPostgres, openTestServer, runSql } from '../database.ts'

const arrays: [type: string, encode: (values: never[]) => Buffer, values: unknown[], asText: string[]][] = [
  ['int2', int2Array, [0, 1, -1, 32_767, -32_768], ['0', '1', '-1', '32767', '-32768']],
  ['int4', int4Array, [0, -1, 2 ** 31 - 1, -(2 ** 31)], ['0', '-1', '2147483647', '-2147483648']],
  [
    'int8',
    int8Array,
    [0, 1, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, -(2 ** 32), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
    ['0', '1', '-1', '2147483648', '4294967295', '4294967296', '-4294967296', '9007199254740991', '-9007199254740991'],
  ],
  ['text', textArray, ['', 'a"b\\{},', 'NULL', '𝄞\u001e'], ['', 'a"b\\{},', 'NULL', '𝄞\u001e']],
  ['bytea', byteaArray, [Buffer.of(0, 255, 92), new Uint8Array(0)], ['\\x00ff5c', '\\x']],
]

for (const [type, encode, values, asText] of arrays) {
  t.test(
    `PostgreSQL reads an array of ${type} as it was written by ${encode.name}`,
    { skip: noPostgres },
    async (t) => {
      const read = async (of: unknown[]) => {
        const sql = `SELECT e.value::text FROM unnest($1::${type}[]) WITH ORDINALITY AS e(value, no) ORDER BY e.no`
        const rows = await runSql<{ value: string }>(await openTestServer(), sql, [encode(of as never[])])
        return rows.map(({ value }) => value)
      }
      t.strictSame(await read(values), asText)
      t.strictSame(await read([]), [])
      // the length and the lower bound, which functions rely on
      const sql = `SELECT cardinality(a) AS length, array_lower(a, 1) AS lower FROM (SELECT $1::${type}[]) AS t(a)`
      const url = await openTestServer()
      t.strictSame(await runSql(url, sql, [encode(values as never[])]), [{ length: values.length, lower: 1 }])
      t.strictSame(await runSql(url, sql, [encode([])]), [{ length: 0, lower: null }])
    },
  )
}
