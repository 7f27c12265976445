import { IngestError } from '@ingest/core'
import pg from 'pg'
import t from 'tap'
import { type FailureKind, kindOf, toIngestError, toOpeningError } from '../../src/connection/database-error.ts'
import { noPostgres, openTestServer, runSql } from '../database.ts'

const skip = noPostgres

const states: [FailureKind, code: string | undefined, ...sqlStates: string[]][] = [
  ['lost', 'store-unavailable', '08000', '08001', '08003', '08004', '08006', '08P01', '25006'],
  ['lost', 'store-unavailable', '40003', '57P01', '57P02', '57P03', '57P04', '57P05'],
  ['retry', 'store-unavailable', '40001', '40P01'],
  ['final', 'store-unavailable', '53000', '53200', '53300', '53400', '55P03', '57014'],
  ['final', 'disk-full', '53100'],
  ['final', 'store-failed', '28000', '28P01', '3D000', '42501'],
  ['final', 'store-failed', '3F000', '42883', '42P01', '58030', 'XX001', 'XX002'],
  // faults of the store itself stay what they are
  ['final', undefined, '22P02', '23505', '42601', 'P0001', 'XX000'],
]

async function errorOf(promise: Promise<unknown>): Promise<Error & { code: string }> {
  return promise.then(
    () => {
      throw new Error('no error')
    },
    (error) => error,
  )
}

for (const [kind, code, ...sqlStates] of states) {
  t.test(`${sqlStates} of PostgreSQL: ${kind}, ${code}`, { skip }, async (t) => {
    for (const sqlState of sqlStates) {
      const sql = `DO $$ BEGIN RAISE EXCEPTION 'the reason' USING ERRCODE = '${sqlState}'; END $$`
      const error = await errorOf(runSql(await openTestServer(), sql))
      t.equal(error.code, sqlState)
      t.equal(kindOf(error), kind, sqlState)
      const shown = toIngestError(error)
      if (code === undefined) t.equal(shown, error, sqlState)
      else t.match(shown, { name: 'IngestError', code, message: /the reason/, cause: error }, sqlState)
      t.equal((shown as IngestError).retryAfterSeconds, code === 'store-unavailable' ? 1 : undefined, sqlState)
    }
  })
}

t.test('a connection that cannot be opened or ends is lost', { skip }, async (t) => {
  const url = new URL(await openTestServer())
  const closed = new URL(url)
  closed.port = '1'
  const errors = [
    await errorOf(runSql(closed.href, 'SELECT 1')),
    await errorOf(runSql(url.href, 'SELECT pg_terminate_backend(pg_backend_pid())')),
    await errorOf(runSlow(url)),
  ]
  for (const error of errors) {
    t.equal(kindOf(error), 'lost', error.message)
    t.match(toIngestError(error), { code: 'store-unavailable' }, error.message)
  }
})

async function runSlow(url: URL): Promise<unknown> {
  const client = new pg.Client({ connectionString: url.href, query_timeout: 1 })
  await client.connect()
  // the time-out ends the query for this side alone
  return client.query('SELECT pg_sleep(1)').finally(() => client.end())
}

t.test('an unknown database or role is not retried', { skip }, async (t) => {
  for (const [part, value] of [
    ['pathname', '/missing_database'],
    ['username', 'missing_role'],
  ] as const) {
    const url = new URL(await openTestServer())
    url[part] = value
    url.password = 'secret'
    const error = await errorOf(runSql(url.href, 'SELECT 1'))
    t.equal(kindOf(error), 'final')
    const shown = toIngestError(error) as IngestError
    t.equal(shown.code, 'store-failed', 'while the store is open')
    const opening = toOpeningError(error) as IngestError
    t.equal(opening.code, 'invalid-argument')
    t.match(opening.message, /check the user|create it/)
    for (const { message } of [shown, opening]) t.notMatch(message, /secret/)
  }
})

t.test('an IngestError stays what it is', async (t) => {
  const error = new IngestError('overloaded', 'Too many.')
  t.equal(toIngestError(error), error)
})
