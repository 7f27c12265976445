import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isProjectId } from '@ingest/core/internal'
import t from 'tap'
import { parseProjectId } from '../src/options.ts'
import { ingest, isWrongUsage, serveHere } from './run-ingest.ts'
import { createKey, openServed, projectId, send } from './served.ts'

const project = ['--project', projectId]
const commandsOfProjects = [
  ['keys', 'create'],
  ['keys', 'list'],
  ['keys', 'revoke', '00000000'],
  ['keys', 'rotate', '00000000'],
  ['export'],
]

t.test('a command without a store or --project is wrong usage', async (t) => {
  const data = t.testdir()
  await isWrongUsage(t, ['serve'], /missing --data <dir> \(or INGEST_DATA\)/)
  for (const command of commandsOfProjects) {
    const missing = command[0] === 'export' ? /missing --url <url>/ : /missing --data <dir> \(or INGEST_DATA\)/
    await isWrongUsage(t, [...command, ...project], missing)
    await isWrongUsage(t, [...command, '--data', data], /missing .*--project <id> \(or INGEST_PROJECT_ID\)/)
  }
})

t.test('commands that read do not create a store', async (t) => {
  const data = t.testdir()
  for (const command of commandsOfProjects.filter((each) => each[1] !== 'create')) {
    await isWrongUsage(t, [...command, ...project, '--data', join(data, 'none')], /There is no store in /)
  }
  await isWrongUsage(t, ['export', ...project, '--data', data], /There is no store in /)
  t.strictSame(readdirSync(data), [])
})

t.test('an invalid directory is wrong usage', async (t) => {
  const file = join(t.testdir({ file: 'mine' }), 'file')
  for (const data of [file, join(file, 'data')]) {
    await isWrongUsage(t, ['serve', '--port', '0', '--data', data], /cannot be a directory/)
  }
  await isWrongUsage(t, ['keys', 'create', ...project, '--data', file], /cannot be a directory/)
  await isWrongUsage(t, ['export', ...project, '--data', file], /There is no store in /)
  await isWrongUsage(t, ['export', ...project, '--data', ''], /non-empty/)
})

t.test('an invalid project id is wrong usage, and creates no store', async (t) => {
  const data = join(t.testdir(), 'data')
  for (const id of ['', 'é', 'x'.repeat(65)]) {
    await isWrongUsage(t, ['keys', 'create', '--data', data, '--project', id], /Expected a project id: 1 to 64 of/)
  }
  for (const command of commandsOfProjects) {
    await isWrongUsage(t, [...command, '--data', data, '--project', 'a:b'], /Expected a project id: 1 to 64 of/)
  }
  t.notOk(existsSync(data))
})

t.test('an invalid option is refused before files are opened or created', async (t) => {
  const path = t.testdir({ 'events.ndjson': '{}' })
  const [data, file, made] = [join(path, 'data'), join(path, 'events.ndjson'), join(path, 'made')]
  const target = ['--data', data, ...project]
  const commands: [args: string[], pattern: RegExp][] = [
    [['keys', 'create', ...target, '--scope', 'nonsense'], /'nonsense' is not a scope: expected events:write/],
    [['keys', 'create', ...target, '--expires', 'soon'], /'soon' is invalid. Expected a duration such as 90d/],
    [['keys', 'create', '--data', data, '--project', 'a b'], /'a b' is invalid. Expected a project id: 1 to 64/],
    // a longer timer would end at once
    [['serve', '--data', data, '--drain-timeout', '90d'], /'90d' is invalid. Expected a duration of at most 24h/],
    [['serve', '--data', data, '--port', 'x'], /'x' is invalid. Expected an integer/],
    [['serve', '--data', data, '--log-format', 'xml'], /'xml' is invalid. Allowed choices are auto, json, text/],
    [['send', file, '--rejected', made, '--data', data, '--project', 'a b'], /'a b' is invalid. Expected a project id/],
    [['send', file, '--rejected', made, ...target, '--concurrency', '0'], /'0' is invalid. Expected an integer/],
    [['send', file, '--rejected', made, ...target], /There is no store in/],
    [['check', file, '--rejected', made, '--project', 'a b'], /'a b' is invalid. Expected a project id/],
    [['export', '--output', made, '--data', data, '--project', 'a b'], /'a b' is invalid. Expected a project id/],
    [['export', '--output', made, ...target, '--from', 'soon'], /--from expects a duration such as 10m/],
    [['export', '--output', made, ...target], /There is no store in/],
    [
      ['maps', 'download', '--output', made, ...target, '--place', '1', '--build', ''],
      /'' is invalid. Expected a non-e/,
    ],
  ]
  for (const [args, pattern] of commands) {
    await isWrongUsage(t, args, pattern)
    t.strictSame(readdirSync(path), ['events.ndjson'], args.join(' '))
  }
})

t.test('--project has the same rule as the core', async (t) => {
  const takes = (id: string) => {
    try {
      return parseProjectId(id) === id
    } catch {
      return false
    }
  }
  for (const id of ['a', 'A-1_b.c', 'x'.repeat(64), '', 'x'.repeat(65), 'a b', 'a:b', 'é', 'a\n', '.', '/']) {
    t.equal(takes(id), isProjectId(id), JSON.stringify(id))
  }
})

t.test('every variable in --help is read, and an option overrides it', async (t) => {
  const commands = [['serve'], ...commandsOfProjects]
  const help = await Promise.all(commands.map((command) => ingest([...command, '--help'])))
  const named = new Set(help.flatMap(({ stdout }) => stdout.match(/INGEST_\w+/g) ?? []))
  const known = ['INGEST_PROJECT_ID', 'INGEST_URL', 'INGEST_KEY', 'INGEST_CONFIG', 'INGEST_ADMIN_TOKEN']
  const schema = JSON.parse((await ingest(['config', '--schema'])).stdout)
  const keys = Object.keys(schema.properties).filter(
    (each) => !['$schema', 'project', 'url', 'from', 'to'].includes(each),
  )
  const ofServe = keys.map((each) => `INGEST_${each.replaceAll(/[A-Z]/g, '_$&').toUpperCase()}`)
  t.strictSame(
    [...named].toSorted(),
    [...known, ...ofServe].toSorted(),
    'these are tested, here or with `ingest config`',
  )
  const data = t.testdir()
  const key = await createKey(data)

  await t.test('INGEST_DATA and INGEST_PROJECT_ID', async (t) => {
    const env = { INGEST_DATA: data, INGEST_PROJECT_ID: projectId }
    const { stdout } = await ingest(['keys', 'list'], { env })
    t.match(stdout, key.slice(3, 11))
    const strange = { INGEST_DATA: join(data, 'none'), INGEST_PROJECT_ID: 'a b' }
    t.equal((await ingest(['keys', 'list', '--data', data, ...project], { env: strange })).stdout, stdout)
    await isWrongUsage(t, ['keys', 'list', '--data', data], /Expected a project id/, { env: strange })
    await isWrongUsage(t, ['keys', 'list', ...project], /There is no store/, { env: strange })
  })

  await t.test('INGEST_STORE', async (t) => {
    const { stdout } = await ingest(['keys', 'list', ...project], { env: { INGEST_STORE: data } })
    t.match(stdout, key.slice(3, 11))
    const strange = { INGEST_STORE: join(data, 'none') }
    for (const name of ['--data', '--store']) {
      t.equal((await ingest(['keys', 'list', name, data, ...project], { env: strange })).stdout, stdout)
    }
    await isWrongUsage(t, ['keys', 'list', ...project], /There is no store/, { env: strange })
  })

  await t.test('INGEST_URL and INGEST_KEY', async (t) => {
    const { url, key } = await openServed(t)
    const env = { INGEST_URL: url, INGEST_KEY: key }
    t.match(await ingest(['export', ...project], { env }), { code: 0, stderr: '' })
    t.match(await ingest(['export', ...project], { env: { ...env, INGEST_KEY: 'wrong' } }), { code: 4 })
    const strange = { ...env, INGEST_URL: 'http://127.0.0.1:1' }
    t.match(await ingest(['export', ...project, '--url', url], { env: strange }), { code: 0, stderr: '' })
  })

  await t.test('those of serve', async (t) => {
    const good = {
      INGEST_DATA: data,
      INGEST_HOST: '127.0.0.1',
      INGEST_PORT: '0',
      INGEST_RATE_LIMIT: 'off',
      INGEST_MAP_RATE_LIMIT: '1G',
      INGEST_READ_RATE_LIMIT: '8M',
      INGEST_PUBLICATION_LIMIT: '2M',
      INGEST_PENDING_MAP_LIMIT: '1G',
      INGEST_LOG_LEVEL: 'silent',
      INGEST_LOG_FORMAT: 'json',
    }
    const quiet = await serveHere(t, [], { env: good })
    t.match(quiet.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    const unlimited = await send({ ...quiet, key }, ['a'])
    t.match(unlimited, { status: 202, body: { accepted: 1 } })
    t.notOk(unlimited.headers.has('RateLimit'))

    quiet.signal('SIGTERM')
    t.match(await quiet.exited, { code: 0, stderr: /^$/ })

    const bad: [string, string, RegExp][] = [
      ['INGEST_DATA', '', /missing --data <dir> \(or INGEST_DATA\)/],
      ['INGEST_MAP_RATE_LIMIT', 'off', /value 'off' from env 'INGEST_MAP_RATE_LIMIT' is invalid/],
      ['INGEST_READ_RATE_LIMIT', 'off', /value 'off' from env 'INGEST_READ_RATE_LIMIT' is invalid/],
      ['INGEST_PENDING_MAP_LIMIT', 'off', /value 'off' from env 'INGEST_PENDING_MAP_LIMIT' is invalid/],
      ['INGEST_PUBLICATION_LIMIT', '0', /value '0' from env 'INGEST_PUBLICATION_LIMIT' is invalid/],
      ['INGEST_HOST', '203.0.113.1', /203\.0\.113\.1 is not an address of this machine/],
      ['INGEST_PORT', 'x', /'--port <n>' value 'x' from env 'INGEST_PORT' is invalid/],
      ['INGEST_RATE_LIMIT', 'on', /'--rate-limit <limits>' value 'on' from env 'INGEST_RATE_LIMIT' is invalid/],
      ['INGEST_LOG_FORMAT', 'xml', /'--log-format <format>' value 'xml' from env 'INGEST_LOG_FORMAT' is invalid/],
      ['INGEST_LOG_LEVEL', 'loud', /'--log-level <level>' value 'loud' from env 'INGEST_LOG_LEVEL' is invalid/],
    ]
    for (const [name, value, pattern] of bad) {
      await isWrongUsage(t, ['serve'], pattern, { env: { ...good, [name]: value } })
    }

    const args = ['--data', data, '--host', '127.0.0.1', '--port', '0', '--rate-limit', '7,700', '--log-level', 'info']
    args.push('--log-format', 'text')
    args.push('--map-rate-limit', '1M', '--publication-limit', '1M')
    args.push('--read-rate-limit', '1M', '--pending-map-limit', '1M')
    const loud = await serveHere(t, args, { env: Object.fromEntries(bad) })
    const limited = await send({ ...loud, key }, ['a'])
    t.match(limited, { status: 202, body: { duplicates: 1 } })
    t.match(limited.headers.get('RateLimit-Policy'), '"requests";q=14')
    loud.signal('SIGTERM')
    t.match(await loud.exited, { code: 0, stderr: /^\d\d:\d\d:\d\d drained accepted=/m })
  })
})

t.test('an integer is only digits, between its bounds', async (t) => {
  const data = t.testdir()
  for (const port of ['', '-1', '65536', '1.5', '0x10', '1e3', ' 1', 'http', '99999999999999999999']) {
    await isWrongUsage(t, ['serve', '--data', data, '--port', port], /'--port <n>' argument '.*' is invalid/)
  }
})

t.test('a duration is a number with a unit', async (t) => {
  const data = t.testdir()
  const rotate = ['keys', 'rotate', '00000000', ...project, '--data', data, '--overlap']
  for (const text of ['', '48', 'h', '-1h', '1.5h', '1w', '1H', '1234567d']) {
    await isWrongUsage(t, [...rotate, text], /Expected a duration with a unit: 10s, 30m, 48h or 90d/)
  }
})
