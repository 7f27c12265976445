import { join } from 'node:path'
import t from 'tap'
import { ingest, isWrongUsage, serveHere } from '../run-ingest.ts'
import { createKey, openServed, projectId, send } from '../served.ts'

const at = '2026-11-20T17:51:00.000Z'
const event = (eventId: string, members: object) => ({ projectId, eventId, ...members })

t.test('rejected events are printed by issue, then one by one, newest first', async (t) => {
  const { project, env } = await openServed(t, { now: () => Date.parse(at) })
  t.match(await ingest(['rejected'], { env }), { code: 0, stdout: `0 events rejected since ${at}\n`, stderr: '' })
  const many = { type: 5, buildId: 5, placeId: {}, sessionId: {} }
  const events = [7, event('a', { type: 5 }), event('good', {}), event('b\u202e', { type: 6 }), event('c', many)]
  await project.submitBatch({ events: events as never[] })
  const { code, stdout, stderr } = await ingest(['rejected', '--limit', '3'], { env })
  t.match({ code, stderr }, { code: 0, stderr: '' })
  t.strictSame(stdout.split('\n'), [
    `4 events rejected since ${at}`,
    '',
    'COUNT  CODE          PATH        MESSAGE',
    '    3  invalid_type  /type       Expected a string.',
    '    1  invalid_type  /buildId    Expected a string.',
    '    1  invalid_type  /placeId    Expected a string or an integer.',
    '    1  invalid_type  /sessionId  Expected a string or an integer.',
    '    1  not_object    -           Expected an object.',
    '',
    'RECEIVED                  INDEX  EVENT    ISSUES',
    `${at}      4  c        invalid_type /type, invalid_type /buildId, invalid_type /placeId, and 1 more`,
    `${at}      3  b\\u202e  invalid_type /type`,
    `${at}      1  a        invalid_type /type`,
    '',
  ])
})

t.test('a long path is cut, and what moves the cursor of a terminal is escaped', async (t) => {
  const { project, env } = await openServed(t, { now: () => Date.parse(at) })
  const long = '\x1b]0;x\x07\u202e'.padEnd(50_000, 'n')
  const deep = JSON.parse(`${'{"a":'.repeat(32)}1${'}'.repeat(32)}`)
  await project.submitBatch({ events: [event('a', { [long]: deep }) as never] })
  const { stdout } = await ingest(['rejected'], { env })
  const shown = `/\\u001b]0;x\\u0007\\u202e${'n'.repeat(112)}…`
  t.strictSame(stdout.split('\n').slice(3, 7), [
    `    1  too_deep  ${shown}  Expected at most 32 levels of nesting.`,
    '',
    'RECEIVED                  INDEX  EVENT  ISSUES',
    `${at}      0  a      too_deep ${shown}`,
  ])
  const { rejected } = JSON.parse((await ingest(['rejected', '--json'], { env })).stdout)
  t.equal(rejected[0].issues[0].path, `/${long}${'/a'.repeat(31)}`)
})

t.test('--json has the events if the server keeps them, and null otherwise', async (t) => {
  for (const keep of [true, false]) {
    const data = join(t.testdir(), `data-${keep}`)
    const key = await createKey(data)
    const { url } = await serveHere(t, ['--store', data, ...(keep ? ['--keep-rejected'] : [])])
    const invalid = `{"projectId":"${projectId}", "eventId":"a","type":[5 ]}`
    await send({ url, key }, `{"events":[${invalid}]}`)
    const env = { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
    const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
    const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
    const printed = JSON.parse((await ingest(['rejected', '--json'], { env })).stdout)
    t.match(printed, { ok: true, projectId, since: time, total: 1, groups: [{ ...issue, count: 1, lastAt: time }] })
    t.match(printed.rejected, [{ receivedAt: time, index: 0, eventId: 'a', issues: [issue] }])
    t.equal(printed.rejected[0].event, keep ? invalid : null)
  }
})

t.test('it works on a server alone', async (t) => {
  const server = ['--url', 'http://127.0.0.1:1', '--project', projectId]
  for (const store of [
    ['--store', 'data'],
    ['--store', 'postgres://127.0.0.1/games'],
  ]) {
    for (const args of [store, [...server, ...store]]) {
      await isWrongUsage(t, ['rejected', ...args], /in the memory of the server: name the server with --url/)
    }
  }
  const env = { INGEST_STORE: 'data', INGEST_PROJECT_ID: projectId }
  await isWrongUsage(t, ['rejected'], /required option '--url <url>' not specified/, { env })
  for (const limit of ['0', '1001']) {
    await isWrongUsage(t, ['rejected', ...server, '--limit', limit], /Expected an integer from 1 to 1000/)
  }
  const { stdout } = await ingest(['rejected', '--help'])
  t.match(stdout, 'Usage: ingest rejected --url <url> --project <id> [options]')
  t.notMatch(stdout, /--store/)
})
