import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { serveCommand } from '../src/commands/serve.ts'
import { createIo, ingest, isWrongUsage, serveHere } from './run-ingest.ts'
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
  await isWrongUsage(t, ['serve'], /required option '--store <store>' not specified/)
  for (const command of commandsOfProjects) {
    const missing = command[0] === 'export' ? /name a server with --url/ : /required option '--store <store>'/
    await isWrongUsage(t, [...command, ...project], missing)
    await isWrongUsage(t, [...command, '--store', data], /required option '--project <id>' not specified/)
  }
})

t.test('commands that read do not create a store', async (t) => {
  const data = t.testdir()
  for (const command of commandsOfProjects.filter((each) => each[1] !== 'create')) {
    await isWrongUsage(t, [...command, ...project, '--store', join(data, 'none')], /There is no store in /)
  }
  await isWrongUsage(t, ['export', ...project, '--store', data], /There is no store in /)
  t.strictSame(readdirSync(data), [])
})

t.test('an invalid directory is wrong usage', async (t) => {
  const file = join(t.testdir({ file: 'mine' }), 'file')
  for (const data of [file, join(file, 'data')]) {
    await isWrongUsage(t, ['serve', '--listen', '127.0.0.1:0', '--store', data], /cannot be a directory/)
  }
  await isWrongUsage(t, ['keys', 'create', ...project, '--store', file], /cannot be a directory/)
  await isWrongUsage(t, ['export', ...project, '--store', file], /There is no store in /)
  await isWrongUsage(t, ['export', ...project, '--store', ''], /non-empty/)
})

t.test('an invalid project id is wrong usage, and creates no store', async (t) => {
  const data = join(t.testdir(), 'data')
  for (const id of ['', 'é', 'x'.repeat(65)]) {
    await isWrongUsage(t, ['keys', 'create', '--store', data, '--project', id], /Expected a project id: 1 to 64 of/)
  }
  for (const command of commandsOfProjects) {
    await isWrongUsage(t, [...command, '--store', data, '--project', 'a:b'], /Expected a project id: 1 to 64 of/)
  }
  t.notOk(existsSync(data))
})

t.test('an invalid option is refused before files are opened or created', async (t) => {
  const path = t.testdir({ 'events.ndjson': '{}' })
  const [data, file, made] = [join(path, 'data'), join(path, 'events.ndjson'), join(path, 'made')]
  const target = ['--store', data, ...project]
  const commands: [args: string[], pattern: RegExp][] = [
    [['keys', 'create', ...target, '--scope', 'nonsense'], /'nonsense' is not a scope: expected events:write/],
    [['keys', 'create', ...target, '--expires', 'soon'], /'soon' is invalid. Expected a duration such as 90d/],
    [['keys', 'create', '--store', data, '--project', 'a b'], /'a b' is invalid. Expected a project id: 1 to 64/],
    // a longer timer would end at once
    [['serve', '--store', data, '--drain-timeout', '90d'], /'90d' is invalid. Expected a duration of at most 24h/],
    [['serve', '--store', data, '--listen', 'x'], /'x' is invalid. Expected an address/],
    [
      ['send', file, '--rejected', made, '--store', data, '--project', 'a b'],
      /'a b' is invalid. Expected a project id/,
    ],
    [['send', file, '--rejected', made, ...target, '--concurrency', '0'], /'0' is invalid. Expected an integer/],
    [['send', file, '--rejected', made, ...target], /There is no store in/],
    [['export', '--output', made, '--store', data, '--project', 'a b'], /'a b' is invalid. Expected a project id/],
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

t.test('every variable in --help is read, and an option overrides it', async (t) => {
  const commands = [['serve'], ...commandsOfProjects]
  const help = await Promise.all(commands.map((command) => ingest([...command, '--help'])))
  const named = new Set(help.flatMap(({ stdout }) => stdout.match(/INGEST_\w+/g) ?? []))
  const known = ['INGEST_PROJECT_ID', 'INGEST_URL', 'INGEST_KEY', 'INGEST_STORE', 'INGEST_ADMIN_TOKEN']
  const { options } = serveCommand(createIo().io)
  const ofServe = options.flatMap(({ long, envVar }) =>
    long && envVar ? `INGEST_${long.slice(2).replaceAll('-', '_').toUpperCase()}` : [],
  )
  t.strictSame(
    [...named].toSorted(),
    [...new Set([...known, ...ofServe])].toSorted(),
    'a variable has the name of its option',
  )
  const data = t.testdir()
  const key = await createKey(data)

  await t.test('INGEST_STORE and INGEST_PROJECT_ID', async (t) => {
    const env = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }
    const { stdout } = await ingest(['keys', 'list'], { env })
    t.match(stdout, key.slice(3, 11))
    const strange = { INGEST_STORE: join(data, 'none'), INGEST_PROJECT_ID: 'a b' }
    t.equal((await ingest(['keys', 'list', '--store', data, ...project], { env: strange })).stdout, stdout)
    await isWrongUsage(t, ['keys', 'list', '--store', data], /Expected a project id/, { env: strange })
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
      INGEST_STORE: data,
      INGEST_LISTEN: '127.0.0.1:0',
      INGEST_RATE_LIMIT: 'off',
      INGEST_PENDING_MAP_LIMIT: '1g',
      INGEST_LOG_LEVEL: 'silent',
      INGEST_CONSOLE: 'false',
    }
    const quiet = await serveHere(t, [], { env: good })
    t.match(quiet.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    const unlimited = await send({ ...quiet, key }, ['a'])
    t.match(unlimited, { status: 202, body: { accepted: 1 } })
    t.notOk(unlimited.headers.has('RateLimit'))

    quiet.signal('SIGTERM')
    t.match(await quiet.exited, { code: 0, stderr: /^$/ })

    const bad: [string, string, RegExp][] = [
      ['INGEST_STORE', '', /required option '--store <store>' not specified/],
      ['INGEST_PENDING_MAP_LIMIT', 'off', /value 'off' from env 'INGEST_PENDING_MAP_LIMIT' is invalid/],
      ['INGEST_LISTEN', '203.0.113.1:0', /203\.0\.113\.1 is not an address of this machine/],
      ['INGEST_LISTEN', 'x', /'--listen <address>' value 'x' from env 'INGEST_LISTEN' is invalid/],
      ['INGEST_RATE_LIMIT', 'on', /'--rate-limit <limits>' value 'on' from env 'INGEST_RATE_LIMIT' is invalid/],
      ['INGEST_LOG_LEVEL', 'loud', /'--log-level <level>' value 'loud' from env 'INGEST_LOG_LEVEL' is invalid/],
    ]
    await isWrongUsage(t, ['serve'], /INGEST_CONSOLE expects true or false, not 'on'/, {
      env: { ...good, INGEST_CONSOLE: 'on' },
    })
    for (const [name, value, pattern] of bad) {
      await isWrongUsage(t, ['serve'], pattern, { env: { ...good, [name]: value } })
    }

    const args = [
      '--store',
      data,
      '--listen',
      '127.0.0.1:0',
      '--rate-limit',
      'requests=7,events=700',
      '--log-level',
      'info',
    ]
    const loud = await serveHere(t, [...args, '--pending-map-limit', '1M'], { env: Object.fromEntries(bad) })
    const limited = await send({ ...loud, key }, ['a'])
    t.match(limited, { status: 202, body: { duplicates: 1 } })
    t.match(limited.headers.get('RateLimit-Policy'), '"requests";q=14')
    loud.signal('SIGTERM')
    t.match(await loud.exited, { code: 0, stderr: /"drained"/ })
  })
})

t.test('an integer is only digits, between its bounds', async (t) => {
  for (const limit of ['', '-1', '101', '1.5', '0x10', '1e3', ' 1', 'ten', '99999999999999999999']) {
    const args = ['stats', '--store', 'd', ...project, '--retries', limit]
    await isWrongUsage(t, args, /'--retries <n>' argument '.*' is invalid. Expected an integer from 0 to 100/)
  }
})

t.test('a duration is a number with a unit', async (t) => {
  const data = t.testdir()
  const rotate = ['keys', 'rotate', '00000000', ...project, '--store', data, '--overlap']
  for (const text of ['', '48', 'h', '-1h', '1.5h', '1w', '1H', '1234567d']) {
    await isWrongUsage(t, [...rotate, text], /Expected a duration with a unit: 10s, 30m, 48h or 90d/)
  }
})

t.test('docs/serve.md has every option of serve, with its default', async (t) => {
  const page = readFileSync(new URL('../../../../docs/serve.md', import.meta.url), 'utf8')
  for (const { long, defaultValue, defaultValueDescription, flags } of serveCommand(createIo().io).options) {
    if (long === '--json') continue
    const [, shown] = new RegExp(`^\\| \`${long}\` +\\| +\`?([^\`|]*?)\`? +\\|`, 'm').exec(page) ?? []
    const expected = defaultValueDescription ?? (typeof defaultValue === 'string' ? defaultValue : undefined)
    if (expected === undefined) t.match(shown, /^(required|off|none)$/, flags)
    else t.equal(shown, expected, flags)
  }
})
