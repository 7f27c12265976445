import t from 'tap'
import { noStrace, spawnIngest, spawnWithFault, startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { send } from '../served.ts'

const isPrintedOnce = /^ingest: this key is printed once and not stored: [^\n]*\n$/

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
    keys,
    async create(...args: string[]): Promise<string> {
      return (await keys('create', ...args)).stdout.trim()
    },
    async status(key: string): Promise<number> {
      return (await send({ url: server.url, key, projectId }, ['a'])).status
    },
  }
}

t.test('a key is valid for its project alone', async (t) => {
  const { create, status } = openKeys()
  const key = await create()
  t.equal(await status(key), 202)
  t.equal(await openKeys().status(key), 401)
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
  const { create, status } = openKeys()
  const made: [string, string[]][] = [
    ['--scope maps:write read', ['maps:write', 'read']],
    ['--scope read,events:write', ['read', 'events:write']],
    ['--scope maps:write --scope events:write', ['maps:write', 'events:write']],
  ]
  for (const [args, scopes] of made) {
    t.equal(await status(await create(...args.split(' '))), scopes.includes('events:write') ? 202 : 401, args)
  }
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

t.test('rotate creates a valid key, and the old key is valid for the overlap', async (t) => {
  const { keys, create, status } = openKeys()
  const old = await create('--scope', 'events:write')
  const fresh = (await keys('rotate', idOf(old))).stdout.trim()
  for (const key of [old, fresh]) t.equal(await status(key), 202)
  const last = (await keys('rotate', idOf(fresh), '--overlap', '0s')).stdout.trim()
  t.equal(await status(fresh), 401, 'an overlap of 0 s')
  t.equal(await status(last), 202)
})
