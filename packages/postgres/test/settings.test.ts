import { buffer } from 'node:stream/consumers'
import { createIngest } from '@ingest/core'
import pg from 'pg'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { migratePostgres } from '../src/schema/migrate.ts'
import { batchOf, batchWith, idsOf } from './batches.ts'
import { createForRoles, nameOf, noPostgres, openTestServer, runSql } from './database.ts'
import { startProxy } from './proxy.ts'

const skip = noPostgres

/** Hostile settings of a role or a database, and the refusal of those with which no store can work. */
const hostile: Record<string, [value: string, refusal?: RegExp]> = {
  // durability
  client_min_messages: ['error'],
  synchronous_commit: ['off'],
  commit_delay: ['100'],
  // transactions
  default_transaction_isolation: ['serializable', /default_transaction_isolation = serializable/],
  default_transaction_deferrable: ['on'],
  default_transaction_read_only: ['on', /default_transaction_read_only/],
  exit_on_error: ['on', /exit_on_error = on/],
  session_replication_role: ['replica'],
  // time limits
  statement_timeout: ['1'],
  lock_timeout: ['1'],
  idle_in_transaction_session_timeout: ['1'],
  // just too short: a shorter one often ends the connection before the settings are read
  idle_session_timeout: ['99', /idle_session_timeout = 99,|terminat(ing|ed)/],
  // just too short; on a slow machine it ends the connection before the settings are read, with one of several messages
  transaction_timeout: ['99', /transaction_timeout = 99,|The database (is too busy|cannot be reached): /],
  deadlock_timeout: ['1'],
  // names
  search_path: ['nowhere'],
  role: ['pg_monitor', /refuses|permission|does not own/],
  row_security: ['off'],
  restrict_nonsystem_relation_kind: ['view', /restrict_nonsystem_relation_kind = view/],
  quote_all_identifiers: ['on'],
  // texts
  DateStyle: ['SQL, DMY'],
  IntervalStyle: ['sql_standard'],
  TimeZone: ['Pacific/Apia'],
  bytea_output: ['escape'],
  extra_float_digits: ['-15'],
  standard_conforming_strings: ['off'],
  escape_string_warning: ['off'],
  backslash_quote: ['on'],
  client_encoding: ['LATIN1'],
  lc_numeric: ['C'],
  array_nulls: ['off'],
  transform_null_equals: ['on'],
  xmloption: ['document'],
  // tables and functions
  check_function_bodies: ['off'],
  default_table_access_method: ['heap'],
  default_toast_compression: ['pglz'],
  'plpgsql.extra_errors': ['all'],
  'plpgsql.extra_warnings': ['all'],
  'plpgsql.variable_conflict': ['use_column'],
  // plans
  plan_cache_mode: ['force_generic_plan'],
  jit: ['on'],
  jit_above_cost: ['0'],
  work_mem: ['64kB'],
  from_collapse_limit: ['1'],
  join_collapse_limit: ['1'],
  geqo_threshold: ['2'],
  constraint_exclusion: ['on'],
  cursor_tuple_fraction: ['0'],
  debug_parallel_query: ['regress'],
  parallel_setup_cost: ['0'],
  min_parallel_table_scan_size: ['0'],
}

/** A text that another encoding or escaping would change. */
const exact = '\u00e9\u4e2d\\u00e9\\\\n \\134 \\x1e "{}"'
const map = { walls: 4, name: 'caf\u00e9' }

t.test('a hostile setting of the role and the database changes no result, or is refused', { skip }, async (t) => {
  const { asOwner, asServer } = await createForRoles()
  const expected = await useStore(asServer)
  t.match(expected, {
    accepted: [2, 1],
    duplicates: [0, 1],
    conflicts: 1,
    text: exact,
    map,
    late: 'map-frozen',
    erased: 1,
  })
  const known = await runSql<{ name: string; isBoolean: boolean }>(
    asOwner,
    `SELECT s.name, s.vartype = 'bool' AS "isBoolean" FROM pg_settings s WHERE s.context IN ('user', 'superuser')`,
  )
  const names = new Set(known.map(({ name }) => name))

  for (const [name, [value, refusal]] of Object.entries(hostile)) {
    // settings of extensions and later versions may be missing
    if (!names.has(name) && !name.includes('.')) continue
    const outcome = await withSettings([[name, value]])
    if (refusal === undefined) t.strictSame(outcome, expected, `${name} = ${value}`)
    else t.match(outcome, { code: /^(invalid-argument|store-(incompatible|unavailable))$/, message: refusal }, name)
  }

  const plannerSettings = known.filter(({ name, isBoolean }) => isBoolean && name.startsWith('enable_'))
  const allOff = plannerSettings.map(({ name }): [string, string] => [name, 'off'])
  t.ok(allOff.length > 10)
  t.strictSame(await withSettings(allOff), expected, 'of all plans, the worst')

  /** Migrates and uses a database with these settings, which its roles have too. */
  async function withSettings(settings: readonly [name: string, value: string][]): Promise<object> {
    const admin = await openTestServer()
    const urls = await createForRoles({ isMigrated: false })
    const [owner, server] = [urls.asOwner, urls.asServer].map((url) => new URL(url).username) as [string, string]
    const targets = [`DATABASE ${nameOf(urls.asOwner)}`, `ROLE ${owner}`, `ROLE ${server}`]
    const all = targets.flatMap((target) => settings.map((setting) => ({ target, setting })))
    for (const { target, setting } of all) {
      await runSql(admin, `ALTER ${target} SET ${setting[0]} = ${pg.escapeLiteral(setting[1])}`)
    }
    try {
      await migratePostgres(urls.asOwner, { grantTo: server })
      return await useStore(urls.asServer)
    } catch (error) {
      return error as Error
    } finally {
      for (const target of targets) await runSql(admin, `ALTER ${target} RESET ALL`)
    }
  }
})

/** The results of every operation on a new store. */
async function useStore(url: string): Promise<object> {
  const store = await openPostgresStore(url, { migrate: false })
  const ingest = createIngest({ store })
  const report = <Row extends object>(sql: string, values?: unknown[]) =>
    runSql<Row>(`${url}?options=-c%20statement_timeout%3D0`, sql, values)
  try {
    const project = ingest.project('p')
    const event = { projectId: 'p', eventId: 'a', text: exact }
    const first = await project.submitBatch({ events: [event, { projectId: 'p', eventId: '\u00e9' }] })
    const again = await project.submitBatch({ events: [event, { projectId: 'p', eventId: 'b' }] })
    const { conflicts } = await store.append('p', batchWith([{ eventId: 'a', text: 'another' }]))
    const id = { placeId: 'place \u00e9', buildId: 'build \\' }
    const { outcome } = await project.publishMap({ ...id, map })
    await project.submitBatch({ events: [{ projectId: 'p', eventId: 'c', buildId: id.buildId }] })
    const late = await project.publishMap({ ...id, map: { walls: 5 } }).catch(({ code }) => code)
    const content = await project.getMapContent(id)
    const ids = await idsOf(store)
    const key = await ingest.keys.create('p')
    const found = await project.findEvent('a')
    return {
      accepted: [first.accepted, again.accepted],
      duplicates: [first.duplicates, again.duplicates],
      conflicts,
      ids,
      text: found && JSON.parse(Buffer.from(found.bytes).toString()).text,
      member: await report("SELECT ingest.event_member(event, 'text') AS text FROM ingest.events WHERE seq = 1"),
      broken: await report('SELECT ingest.event_member($1, $2) AS text', ['{"a":"\\u0000\\\\u0041"}', 'a']),
      outcome,
      late,
      map: content && JSON.parse((await buffer(content.bytes())).toString()),
      keys: (await ingest.keys.list('p')).map(({ keyId }) => key.key.includes(keyId)),
      erased: (await ingest.eraseEvents('p', { path: '/eventId', value: 'b' })).events,
      left: await idsOf(store),
    }
  } finally {
    await ingest.close()
  }
}

t.test('a setting that changes while a server runs causes no wrong result', { skip }, async (t) => {
  const { asServer } = await createForRoles()
  const store = await openPostgresStore(asServer, { migrate: false })
  t.teardown(() => store.close())
  await store.append('p', batchOf('a'))
  const sql = (value: string) => `ALTER DATABASE ${nameOf(asServer)} SET default_transaction_isolation = ${value}`
  await runSql(await openTestServer(), sql("'repeatable read'"))
  await endSessions(asServer)
  const refused = { code: 'store-failed', message: /default_transaction_isolation/ }
  await t.rejects(store.append('p', batchOf('b')), refused)
  await t.rejects(
    store.updateEntry('project', 'p', () => ({ entry: { projectId: 'p', createdAt: 0, keys: [] }, result: 1 })),
    refused,
  )
  t.strictSame(await idsOf(store), ['a'])
  await runSql(await openTestServer(), sql('DEFAULT'))
  await endSessions(asServer)
  t.strictSame((await store.append('p', batchOf('b'))).stored, [true])
})

t.test('a store is ready as long as its settings let it append', { skip }, async (t) => {
  const admin = await openTestServer()
  const { asServer } = await createForRoles()
  const store = await openPostgresStore(asServer, { migrate: false })
  t.teardown(() => store.close())
  await store.append('p', batchOf('a'))
  const known = await runSql<{ name: string }>(admin, 'SELECT s.name FROM pg_settings s')
  const names = known.map(({ name }) => name)
  for (const [name, [value, refusal]] of Object.entries(hostile)) {
    // whether a time limit is reached depends on the machine
    if (refusal === undefined || name.endsWith('_timeout') || !names.includes(name)) continue
    const target = `DATABASE ${nameOf(asServer)}`
    await runSql(admin, `ALTER ${target} SET ${name} = ${pg.escapeLiteral(value)}`)
    await endSessions(asServer)
    const appended = await outcomeOf(store.append('p', batchOf('a')))
    t.equal(await outcomeOf(store.check()), appended, `${name} = ${value}`)
    await runSql(admin, `ALTER ${target} RESET ALL`)
  }
})

t.test('a path that drops the notices of the database is refused', { skip }, async (t) => {
  const { asServer } = await createForRoles()
  const proxy = await startProxy(t, asServer)
  await (await openPostgresStore(proxy.url, { migrate: false })).close()
  proxy.dropNotices()
  const refused = { code: 'store-incompatible', message: /^Notices of the database do not arrive/ }
  await t.rejects(openPostgresStore(proxy.url, { migrate: false }), refused)
})

async function outcomeOf(operation: Promise<unknown>): Promise<string> {
  return operation.then(
    () => 'succeeds',
    ({ message }) => message,
  )
}

/** Ends the sessions of servers. */
async function endSessions(url: string): Promise<void> {
  const ofServers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'ingest' AND datname = $1`
  await runSql(await openTestServer(), ofServers, [nameOf(url)])
}
