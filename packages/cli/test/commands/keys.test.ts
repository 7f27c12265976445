import { createHash } from 'node:crypto'
import t from 'tap'
import { noStrace, spawnIngest, spawnWithFault, startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { send } from '../served.ts'

const keyPattern = /^ik_[0-9a-z]{8}_[0-9a-z]{39}\n$/
const isPrintedOnce = /^ingest: this key is printed once and not stored: [^\n]*\n$/
const hourMs = 3_600_000

const data = t.testdir()
const server = await startServe(t, ['--store', data, '--rate-limit', 'off'])
let projects = 0

function idOf(key: string): string {
  return key.slice(3, 11)
}

/** The `keys` commands for a new project, while the server runs. */
function openKeys() {
  const projectId = `project-${++projects}`
  const store = ['--store', data, '--project', projectId]
  const keys = (command: string, ...args: string[]) => ingest(['keys', command, ...args, ...store])
  return {
    store,
    keys,
    async create(...args: string[]): Promise<string> {
      return (await keys('create', ...args)).stdout.trim()
    },
    async list() {
      return JSON.parse((await keys('list', '--json')).stdout).keys
    },
    async status(key: string): Promise<number> {
      return (await send({ url: server.url, key, projectId }, ['a'])).status
    },
  }
}

t.test('create prints only the key, which is valid for its project', async (t) => {
  const { keys, status } = openKeys()
  const { code, stdout, stderr } = await keys('create')
  t.match({ code, stdout, stderr }, { code: 0, stdout: keyPattern, stderr: isPrintedOnce })
  t.equal(await status(stdout.trim()), 202)
  t.equal(await openKeys().status(stdout.trim()), 401, 'and no other project')
})

t.test('a key that may have been created is not printed, and the error has advice', { skip: noStrace }, async (t) => {
  const store = ['--store', t.testdir(), '--project', 'p']
  const keyId = idOf((await ingest(['keys', 'create', ...store])).stdout)
  const unknown = { code: 6, stdout: /^$/, stderr: /A key may have been created.*ingest keys list/ }
  for (const command of [['create'], ['rotate', keyId]]) {
    t.match(await spawnWithFault(['keys', ...command, ...store], 'fdatasync:error=EIO'), unknown)
  }
  t.match(await ingest(['keys', 'list', ...store]), { code: 0, stdout: keyId })
})

t.test('concurrent creates in a new directory all succeed', async (t) => {
  const store = ['--store', t.testdir(), '--project', 'p']
  const made = await Promise.all([1, 2, 3].map(() => spawnIngest(['keys', 'create', ...store])))
  for (const { code, stderr } of made) t.match({ code, stderr }, { code: 0, stderr: isPrintedOnce })
  const { stdout } = await ingest(['keys', 'list', ...store])
  for (const { stdout: key } of made) t.match(stdout, idOf(key))
})

t.test('a key allows only its scopes', async (t) => {
  const { create, list, status } = openKeys()
  const made: [string, string[]][] = [
    ['--scope maps:write read', ['maps:write', 'read']],
    ['--scope read,events:write', ['read', 'events:write']],
    ['--scope maps:write --scope events:write', ['maps:write', 'events:write']],
  ]
  for (const [args, scopes] of made) {
    t.equal(await status(await create(...args.split(' '))), scopes.includes('events:write') ? 202 : 401, args)
  }
  t.strictSame(
    (await list()).map(({ scopes }: { scopes: string[] }) => scopes),
    made.map(([, scopes]) => scopes),
  )
})

t.test('--expires accepts a time or a duration', async (t) => {
  const { create, list } = openKeys()
  await create('--expires', '2100-01-02T03:04:05Z')
  await create('--expires', '2100-01-02T03:04:05.678+02:30')
  await create('--expires', '90d')
  const [utc, zone, days] = await list()
  t.equal(utc.expiresAt, '2100-01-02T03:04:05.000Z')
  t.equal(zone.expiresAt, '2100-01-02T00:34:05.678Z')
  t.ok(Math.abs(Date.parse(days.expiresAt) - Date.parse(days.createdAt) - 90 * 24 * hourMs) < 60_000)
})

t.test('list prints the keys without a secret or its hash', async (t) => {
  const { keys, create } = openKeys()
  const all = await create()
  const short = await create('--scope', 'read', '--expires', '2100-01-02T03:04:05Z')
  await keys('revoke', idOf(short))

  const table = await keys('list')
  const day = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z'
  const lines = [
    'KEY {7}STATE {4}CREATED {19}EXPIRES {19}LAST USED  SCOPES',
    `${idOf(all)}  active   ${day}  never {19}  never {4}  events:write,maps:write,read,consume`,
    `${idOf(short)}  revoked  ${day}  2100-01-02T03:04:05.000Z  never {4}  read`,
  ]
  t.match(table, { code: 0, stdout: new RegExp(`^${lines.join('\\n')}\\n$`), stderr: /^$/ })

  const json = await keys('list', '--json')
  const time = new RegExp(`^${day}$`)
  t.match(JSON.parse(json.stdout).keys, [
    { keyId: idOf(all), state: 'active', createdAt: time, expiresAt: null, revokedAt: null, lastUsedAt: null },
    { keyId: idOf(short), state: 'revoked', createdAt: time, expiresAt: '2100-01-02T03:04:05.000Z', revokedAt: time },
  ])
  for (const { stdout } of [table, json]) {
    for (const key of [all, short]) {
      t.notMatch(stdout, key.slice(12), 'not the secret')
      for (const encoding of ['hex', 'base64', 'base64url'] as const) {
        t.notMatch(stdout, createHash('sha256').update(key).digest(encoding))
      }
    }
  }
})

t.test('a project without keys has an empty list', async (t) => {
  const { keys } = openKeys()
  const stderr = /^ingest: the project \S+ has no keys\n$/
  t.match(await keys('list'), { code: 0, stdout: /^KEY .*\n$/, stderr })
  t.match(await keys('list', '--json'), { code: 0, stdout: /"keys":\[\]/, stderr })
})

t.test('a running server applies a created or revoked key within a second', async (t) => {
  const { keys, create, status } = openKeys()
  const first = await create()
  t.equal(await statusAfter(401, () => status(first)), 202)
  const second = await create()
  t.equal(await statusAfter(401, () => status(second)), 202)

  t.match(await keys('revoke', idOf(first)), { code: 0, stdout: `revoked ${idOf(first)}\n`, stderr: /^$/ })
  t.equal(await statusAfter(202, () => status(first)), 401)
  t.equal(await status(second), 202, 'the other goes on')
  t.match(await keys('revoke', idOf(first)), { code: 0 }, 'revoking twice is revoking once')
})

/** Polls for another status. */
async function statusAfter(before: number, ask: () => Promise<number>): Promise<number> {
  let status = await ask()
  while (status === before) status = await ask()
  return status
}

t.test('rotate creates a key with the same scopes, and the old key is valid for the overlap', async (t) => {
  const { keys, create, list, status } = openKeys()
  const old = await create('--scope', 'events:write')
  const before = Date.now()
  const { code, stdout, stderr } = await keys('rotate', idOf(old))
  const after = Date.now()
  t.match({ code, stdout, stderr }, { code: 0, stdout: keyPattern, stderr: isPrintedOnce })
  const fresh = stdout.trim()
  for (const key of [old, fresh]) t.equal(await status(key), 202)
  const [oldRecord, freshRecord] = await list()
  const endedAt = Date.parse(oldRecord.expiresAt) - 48 * hourMs
  t.ok(endedAt >= before && endedAt <= after, '48 hours by default')
  t.match(freshRecord, { keyId: idOf(fresh), scopes: ['events:write'], expiresAt: null })

  const last = (await keys('rotate', idOf(fresh), '--overlap', '0s')).stdout.trim()
  t.equal(await status(fresh), 401, 'an overlap of 0 s')
  t.equal((await list()).at(-2).state, 'expired')
  t.equal(await status(last), 202)
})

t.test('an unknown or revoked key: exit code 3', async (t) => {
  const { keys, create } = openKeys()
  const key = await create()
  for (const command of ['revoke', 'rotate']) {
    t.match(await keys(command, '00000000'), {
      code: 3,
      stdout: /^$/,
      stderr: 'ingest: The project has no key 00000000.\n',
    })
  }
  t.match(await openKeys().keys('revoke', idOf(key)), { code: 3, stdout: /^$/ }, "nor is another project's")
  await keys('revoke', idOf(key))
  t.match(await keys('rotate', idOf(key)), {
    code: 3,
    stdout: /^$/,
    stderr: /^ingest: .* is expired or revoked: .*\n$/,
  })
})
