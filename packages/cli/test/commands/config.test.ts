import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Compile } from 'typebox/schema'
import { ingest, isWrongUsage } from '../run-ingest.ts'

/** Writes a file of settings. */
function writeConfig(t: Test, content: object | string): string {
  const file = join(t.testdir(), 'settings.json')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o600 })
  return file
}

/** The settings that `ingest config` prints, by key. */
async function settingsOf(args: readonly string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await ingest(['config', '--json', ...args], { env })
  if (code !== 0) throw new Error(stderr)
  const { settings } = JSON.parse(stdout)
  return settings as Record<string, { value: unknown; source: string; from: string | null }>
}

/** Three values of each setting of serve, as the file has them, of which none is the default. */
const samples: Record<string, [unknown, unknown, unknown]> = {
  data: ['/a', '/b', '/c'],
  migrate: [false, false, false],
  connectionsMax: [1, 2, 3],
  retain: ['90d', 'demo=30d,*=off', '48h'],
  host: ['::', '::1', 'localhost'],
  port: [1, 2, 3],
  tlsCert: ['/a.pem', '/b.pem', '/c.pem'],
  tlsKey: ['/a.key', '/b.key', '/c.key'],
  trustProxy: [1, '10.0.0.0/8,::1', 2],
  cors: ['https://a.example', 'https://a.example,http://b.example:81', '*'],
  rateLimit: ['off', '1,2', '3,4'],
  mapRateLimit: ['1K', '2M', 3],
  readRateLimit: ['4K', '5M', 6000],
  publicationLimit: ['1K', '2M', 3],
  pendingMapLimit: ['1K', '2M', 3],
  console: [true, true, true],
  keepRejected: [true, true, true],
  drainTimeout: ['1s', '2m', '3h'],
  adminPort: [4, 0, 5],
  adminHost: ['::', '::1', 'localhost'],
  metricsProjects: [0, 1, 2],
  logLevel: ['debug', 'warn', 'silent'],
  logFormat: ['json', 'text', 'json'],
}

const switches = ['console', 'keepRejected']
const toVariable = (key: string) => `INGEST_${key.replaceAll(/[A-Z]/g, '_$&').toUpperCase()}`
const toFlag = (key: string) => `--${key.replaceAll(/[A-Z]/g, '-$&').toLowerCase()}`

t.test('a flag overrides the variable, which overrides the file, which overrides the default', async (t) => {
  const names = Object.keys(samples)
  const valuesAt = (i: number) => Object.fromEntries(names.map((key) => [key, samples[key]?.[i]]))
  const file = writeConfig(t, valuesAt(0))
  const env = Object.fromEntries(names.map((key) => [toVariable(key), String(samples[key]?.[1])]))
  const flags = names.flatMap((key) =>
    key === 'migrate'
      ? ['--no-migrate']
      : switches.includes(key)
        ? [toFlag(key)]
        : [toFlag(key), String(samples[key]?.[2])],
  )

  const asDefault = await settingsOf([])
  t.strictSame(Object.keys(asDefault).toSorted(), [...names, 'store', 'socket', 'config', 'adminToken'].toSorted())
  for (const [key, { value, source, from }] of Object.entries(asDefault)) {
    t.strictSame({ source, from }, { source: 'default', from: null }, key)
    for (const sample of samples[key] ?? []) t.not(value, sample, key)
  }
  const inFile = await settingsOf(['--config', file])
  const inEnvironment = await settingsOf(['--config', file], env)
  const inFlags = await settingsOf(['--config', file, ...flags], env)
  for (const key of names) {
    t.strictSame(inFile[key], { value: samples[key]?.[0], source: 'file', from: file })
    t.strictSame(inEnvironment[key], { value: samples[key]?.[1], source: 'environment', from: toVariable(key) })
    const from = key === 'migrate' ? '--no-migrate' : toFlag(key)
    t.strictSame(inFlags[key], { value: samples[key]?.[2], source: 'flag', from })
  }
})

t.test('an empty variable is no variable', async (t) => {
  const file = writeConfig(t, { port: 1 })
  t.match(await settingsOf(['--config', file], { INGEST_PORT: '', INGEST_HOST: '' }), {
    port: { value: 1, source: 'file' },
    host: { source: 'default' },
  })
})

t.test('of options that replace each other, those of the strongest source are in force', async (t) => {
  const file = writeConfig(t, { socket: '/run/ingest.sock', store: '/stored' })
  const inFile = await settingsOf(['--config', file])
  t.match(inFile, { socket: { value: '/run/ingest.sock' }, store: { value: '/stored' } })
  t.strictSame([inFile.host, inFile.port, inFile.data], [undefined, undefined, undefined])
  const replaced = await settingsOf(['--config', file, '--data', '/other'], { INGEST_PORT: '1' })
  t.match(replaced, { port: { value: 1 }, host: { source: 'default' }, data: { value: '/other' } })
  t.strictSame([replaced.socket, replaced.store], [undefined, undefined])
  await isWrongUsage(
    t,
    ['config', '--socket', '/s', '--port', '1'],
    /--socket replaces --host and --port: remove --port/,
  )
  await isWrongUsage(t, ['config', '--tls-cert', '/c'], /--tls-cert needs --tls-key/)
  await isWrongUsage(t, ['config', '--tls-key', '/c'], /--tls-key needs --tls-cert/)
  const both = writeConfig(t, { data: '/a', store: '/b' })
  await isWrongUsage(t, ['serve', '--config', both], /has data and store, use --data or --store/)
})

t.test('the file is named by --config or INGEST_CONFIG, or is in the working directory', async (t) => {
  const here = process.cwd()
  const directory = t.testdir({
    'ingest.config.json': '{"port":1,"data":"games"}',
    etc: { 'a.json': '{"port":2,"data":"games"}', 'b.json': '{"port":3,"data":"/games"}' },
  })
  process.chdir(directory)
  t.teardown(() => process.chdir(here))
  const portAndStore = async (args: readonly string[], env?: Record<string, string>) => {
    const { port, data, config } = await settingsOf(args, env)
    return [port?.value, data?.value, config?.value]
  }
  t.strictSame(await portAndStore([]), [1, 'games', 'ingest.config.json'])
  const env = { INGEST_CONFIG: 'etc/a.json' }
  t.strictSame(await portAndStore([], env), [2, join('etc', 'games'), 'etc/a.json'], 'paths are relative to the file')
  t.strictSame(await portAndStore(['--config', 'etc/b.json'], env), [3, '/games', 'etc/b.json'])
  await isWrongUsage(t, ['config', '--config', 'none.json'], /the settings cannot be read: .*none\.json/)
  await isWrongUsage(t, ['config', '--config', ''], /non-empty/)
  process.chdir(join(directory, 'etc'))
  t.strictSame(await portAndStore([]), [8787, null, null])
})

t.test('every command takes its store and project from the file', async (t) => {
  const file = writeConfig(t, { data: 'games', project: 'demo', port: 0, console: true })
  const config = ['--config', file]
  const created = await ingest(['keys', 'create', ...config])
  t.match(created, { code: 0, stdout: /^ik_/ })
  t.match(await ingest(['keys', 'list'], { env: { INGEST_CONFIG: file } }), { stdout: created.stdout.slice(3, 11) })
  t.match(await ingest(['stats', ...config]), { stdout: /^demo /m })
  await isWrongUsage(t, ['export', ...config, '--data', join(file, 'none')], /There is no store/)
  await isWrongUsage(t, ['keys', 'list', ...config, '--project', 'a b'], /Expected a project id/)
  const other = writeConfig(t, { port: 'x' })
  await isWrongUsage(t, ['stats', '--config', other, '--data', 'd'], /port: expected an integer/)
})

t.test('an invalid file is one line that names the file, and the line or the key', async (t) => {
  const cases: [content: object | string, message: RegExp][] = [
    ['', /settings\.json:1:1 is not JSON: Value expected/],
    ['{"port": }', /settings\.json:1:10 is not JSON: Value expected/],
    ['{\n  "port": 1,\n}', /settings\.json:3:1 is not JSON: Property name expected/],
    ['{"store": "postgres://u:c4n4ry@h/d" "port": 1}', /settings\.json:1:37 is not JSON: Comma expected/],
    ['['.repeat(60_000), /settings\.json is not JSON: it is nested too deeply/],
    [`{"port": 1${' '.repeat(65_536)}}`, /settings\.json: larger than 65536 bytes/],
    ['{} // ok?', /settings\.json:1:4 is not JSON: Invalid comment token/],
    [[], /settings\.json: expected an object/],
    [{ prot: 1 }, /unknown key "prot", did you mean "port"\?/],
    [{ loglevel: 'info' }, /unknown key "loglevel", did you mean "logLevel"\?/],
    [{ 'rate-limit': 'off' }, /unknown key "rate-limit", did you mean "rateLimit"\?/],
    [{ somethingElseAltogether: 1 }, /unknown key "somethingElseAltogether", expected adminHost, .*, url/],
    [{ json: true }, /unknown key "json"/],
    [{ adminToken: 'c4n4ry' }, /unknown key "adminToken": set INGEST_ADMIN_TOKEN in the environment/],
    [{ key: 'c4n4ry' }, /unknown key "key": set INGEST_KEY in the environment/],
    [{ port: '8787' }, /settings\.json: port: expected an integer\./],
    [{ port: 1.5 }, /port: expected an integer\./],
    [{ port: 65536 }, /port: expected an integer from 0 to 65535/],
    [{ host: null }, /host: expected a string/],
    [{ data: '' }, /data: expected a non-empty value/],
    [{ data: 'postgres://u:c4n4ry@h/d' }, /data: --data expects a directory/],
    [{ store: 'mysql://u:c4n4ry@h/d' }, /store: a store is a directory or postgres:/],
    [{ migrate: 'no' }, /migrate: expected true or false/],
    [{ console: 1 }, /console: expected true or false/],
    [{ keepRejected: 'on' }, /keepRejected: expected true or false/],
    [{ mapRateLimit: '1T' }, /mapRateLimit: expected a size/],
    [{ mapRateLimit: true }, /mapRateLimit: expected a string or an integer/],
    [{ logLevel: 'loud' }, /logLevel: allowed choices are fatal, /],
    [{ drainTimeout: 10 }, /drainTimeout: expected a string/],
    [{ drainTimeout: '10' }, /drainTimeout: expected a duration with a unit/],
    [{ cors: ['app.example.com'] }, /cors: expected origins such as/],
    [{ cors: ['*', 'https://a.example'] }, /cors: expected origins such as .*, or only \*/],
    [{ cors: [1] }, /cors: expected a string or an array of strings/],
    [{ trustProxy: 17 }, /trustProxy: expected a number of proxies from 1 to 16/],
    [{ trustProxy: ['10.0.0.0/33'] }, /trustProxy: expected a number of proxies/],
    [{ retain: '90' }, /retain: expected a duration such as 90d/],
    [{ retain: '0d' }, /retain: expected a duration such as 90d/],
    [{ retain: 'demo=30d=90d' }, /retain: expected a duration such as 90d/],
    [{ retain: { demo: 30 } }, /retain: expected a duration such as 90d/],
    [{ retain: { 'a b': '30d' } }, /retain: expected a project id/],
    [{ retain: 'a=1d,a=2d' }, /retain: expected one duration for a/],
    [{ project: 'a b' }, /project: expected a project id/],
  ]
  for (const [content, message] of cases) {
    const file = writeConfig(t, content)
    const result = await ingest(['config', '--json', '--config', file])
    t.match(result, { code: 2, stderr: message, stdout: /^\{"ok":false,"error":\{"code":"invalid-argument"/ })
    t.notMatch(result.stderr.trimEnd(), /\n|c4n4ry/)
  }
})

t.test('lists and rules may be arrays and objects', async (t) => {
  const file = writeConfig(t, {
    cors: ['https://a.example', 'https://b.example'],
    trustProxy: ['10.0.0.0/8', '::1'],
    retain: { demo: '30d', keep: 'off', '*': '90d' },
  })
  t.match(await settingsOf(['--config', file]), {
    cors: { value: 'https://a.example,https://b.example' },
    trustProxy: { value: '10.0.0.0/8,::1' },
    retain: { value: 'demo=30d,keep=off,*=90d' },
  })
})

t.test('no secret is printed, and a password that others may read is a warning', async (t) => {
  const file = writeConfig(t, { store: 'postgres://u:c4n4ry@localhost/games' })
  const env = { INGEST_ADMIN_TOKEN: 'c4n4ry-of-the-admin' }
  for (const args of [[], ['--json']]) {
    const quiet = await ingest(['config', '--config', file, ...args], { env })
    t.match(quiet, { code: 0, stderr: /^$/, stdout: /postgres:\/\/u@localhost\/games/ })
    t.match(quiet.stdout, /adminToken.*set.*INGEST_ADMIN_TOKEN/)
    t.notMatch(quiet.stdout, 'c4n4ry')
  }
  if (process.platform === 'win32') return
  chmodSync(file, 0o644)
  const warned = await ingest(['config', '--config', file])
  t.match(warned, { code: 0, stderr: /^ingest: .* holds a password and every user .*: chmod 640 .*\n$/ })
  writeFileSync(file, '{"port":1}')
  t.match(await ingest(['config', '--config', file]), { stderr: /^$/ })
})

t.test('the table has a line for each setting', async (t) => {
  const file = writeConfig(t, { data: '/games' })
  const { stdout } = await ingest(['config', '--config', file, '--port', '1'], { env: { INGEST_HOST: '::' } })
  const rows = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/))
  t.strictSame(rows[0], ['KEY', 'VALUE', 'FROM'])
  for (const row of [
    ['data', '/games', file],
    ['host', '::', 'INGEST_HOST'],
    ['port', '1', '--port'],
    ['rateLimit', '100,20000', 'default'],
    ['tlsCert', '-', 'default'],
  ]) {
    t.strictSame(
      rows.find(([key]) => key === row[0]),
      row,
    )
  }
})

const shipped = readFileSync(fileURLToPath(new URL('../../ingest.config.schema.json', import.meta.url)), 'utf8')

t.test('the JSON Schema of the package is that of the options', async (t) => {
  const { stdout } = await ingest(['config', '--schema'])
  t.strictSame(
    JSON.parse(shipped),
    JSON.parse(stdout),
    'run `ingest config --schema > packages/cli/ingest.config.schema.json`',
  )
})

t.test('what the command takes is valid by the JSON Schema, and other types and unknown keys are not', async (t) => {
  const schema = Compile(JSON.parse(shipped))
  for (const [key, values] of Object.entries(samples)) {
    for (const value of values) t.ok(schema.Check({ [key]: value }), `${key}: ${value}`)
    for (const value of [null, 1.5, [1]]) t.notOk(schema.Check({ [key]: value }), `${key}: ${value}`)
  }
  t.ok(schema.Check({ $schema: 'x', retain: { demo: '30d', '*': 'off' }, cors: ['*'], trustProxy: ['::1'] }))
  for (const wrong of [{ port: 65536 }, { port: '1' }, { logLevel: 'loud' }, { drainTimeout: '1' }, { prot: 1 }])
    t.notOk(schema.Check(wrong), JSON.stringify(wrong))
})

t.test('the table of the docs has the options of serve with their defaults', async (t) => {
  const root = execFileSync('git', ['rev-parse', '--show-toplevel'], { encoding: 'utf8' }).trim()
  const [, section = ''] = /^## Run$(.*?)^## /ms.exec(readFileSync(join(root, 'docs/operations.md'), 'utf8')) ?? []
  const documented = Array.from(section.matchAll(/^\| `(--[\w-]+)` +\| (.*?) +\|/gm), ([, flag = '', value = '']) => ({
    flag,
    value: ['-', 'one of them'].includes(value) ? null : value.replaceAll('`', ''),
  }))
  const settings = Object.entries(await settingsOf([])).filter(([key]) => key !== 'adminToken')
  const actual = settings.map(([key, { value }]) => ({
    flag: key === 'migrate' ? '--no-migrate' : toFlag(key),
    value:
      typeof value === 'boolean'
        ? 'off'
        : key === 'config'
          ? 'ingest.config.json'
          : value === null
            ? null
            : String(value),
  }))
  t.strictSame(documented, actual)
})
