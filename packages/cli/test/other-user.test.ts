import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Ended, ended, ingestCommand, ownEnvironment, spawnIngest, startCommand } from './ingest-process.ts'

const uid = 65_534
const user = ['setpriv', '--reuid', `${uid}`, '--regid', `${uid}`, '--clear-groups', 'env', 'HOME=/tmp']
const skip =
  (process.getuid?.() !== 0 || spawnSync('setpriv', ['--version']).status !== 0) &&
  'only root can run a command as another user, with setpriv(1)'

/** Without the directory for coverage, which Node.js passes on, and in which another user may not write. */
const otherEnvironment = { ...ownEnvironment(), NODE_V8_COVERAGE: '' }

function asUser(args: readonly string[]): Promise<Ended> {
  return ended(startCommand([...user, ...ingestCommand(args)], otherEnvironment))
}

/** The files of a directory that do not belong to the user. */
function foreignIn(directory: string): string[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => statSync(join(directory, name)).uid !== uid)
}

/** A directory of the user, with a store of the user in it. */
async function openUserStore(t: Test): Promise<{ directory: string; store: string }> {
  const directory = mkdtempSync(join(tmpdir(), 'ingest-other-user-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  chownSync(directory, uid, uid)
  chmodSync(directory, 0o755)
  const store = join(directory, 'store')
  t.match(await asUser(['keys', 'create', '--store', store, '--project', 'p']), { code: 0 })
  return { directory, store }
}

t.test('a file of another user is exit code 2, with its path and its owner', { skip }, async (t) => {
  const { directory, store } = await openUserStore(t)
  const files = [
    'events',
    'events/data.mdb',
    'events/lock.mdb',
    'events/gate',
    'events/gate/data.mdb',
    'events/gate/lock.mdb',
    'ids',
    'ids/data.mdb',
    'chunks',
    'chunks/data.mdb',
  ]
  for (const file of files) {
    const path = join(store, file)
    chownSync(path, 0, 0)
    for (const command of file.startsWith('events') ? [['stats'], ['verify']] : [['stats']]) {
      const { code, stderr } = await asUser([...command, '--store', store])
      const where = new RegExp(
        `^ingest: ${path}\\S*: permission denied: .*belongs to uid 0,.* as uid ${uid}\\. Run it as .*\\n$`,
      )
      t.match({ code, stderr }, { code: 2, stderr: where }, `${command[0]}, ${file}`)
    }
    chownSync(path, uid, uid)
  }
  t.match(await asUser(['stats', '--store', store]), { code: 0 })

  const rootOnly = join(directory, 'root-only')
  mkdirSync(rootOnly, { mode: 0o700 })
  const cursorFile = join(directory, 'cursor.json')
  writeFileSync(cursorFile, '{}', { mode: 0o600 })
  const exported = join(directory, 'exported')
  for (const [args, path] of [
    [['keys', 'create', '--project', 'p', '--store', join(rootOnly, 'new')], join(rootOnly, 'new')],
    [['backup', '--store', store, join(rootOnly, 'backup')], rootOnly],
    [['repair', '--store', rootOnly, '--to', join(directory, 'repaired')], rootOnly],
    [['restore', store, '--store', join(rootOnly, 'restored')], rootOnly],
    [['export', '--project', 'p', '--store', store, '--output', rootOnly], rootOnly],
    [['export', '--project', 'p', '--store', store, '--output', join(rootOnly, 'below')], rootOnly],
    [['export', '--project', 'p', '--store', store, '--output', exported, '--cursor-file', cursorFile], cursorFile],
  ] as const) {
    const { code, stderr } = await asUser(args)
    const line = new RegExp(`^ingest: ${path}\\S*: permission denied: .*belongs to uid 0,.*\\n$`)
    t.match({ code, stderr }, { code: 2, stderr: line }, args.join(' '))
  }
  chmodSync(join(store, 'events', 'data.mdb'), 0o400)
  t.match(await asUser(['stats', '--store', store]), { code: 2, stderr: /its mode is 0400\. Change the mode\.\n$/ })
})

t.test('what root creates in a store belongs to the owner of the store, whose server opens it', { skip }, async (t) => {
  const { directory, store } = await openUserStore(t)
  const remove = (...names: string[]) => {
    for (const name of names) rmSync(join(store, name), { recursive: true })
  }
  const old = join(directory, 'old')
  for (const [what, change] of [
    ['an id index', () => remove('ids')],
    ['a damaged id index', () => writeFileSync(join(store, 'ids/damaged'), '')],
    ['a gate', () => remove('events/gate')],
    ['lock files', () => remove('events/lock.mdb', 'events/gate/lock.mdb', 'ids/lock.mdb', 'chunks/lock.mdb')],
    ['maps', () => remove('chunks')],
    ['a restored backup', () => backUpAndRestore()],
    ['a new store', () => rmSync(store, { recursive: true })],
  ] as const) {
    await change()
    t.match(await spawnIngest(['keys', 'create', '--store', store, '--project', 'p']), { code: 0 }, what)
    t.strictSame(foreignIn(directory), [], `${what}: all belongs to the user`)
    for (const command of [['stats'], ['keys', 'create', '--project', 'p']]) {
      t.match(await asUser([...command, '--store', store]), { code: 0 }, what)
    }
  }

  async function backUpAndRestore(): Promise<void> {
    const backup = join(directory, 'backup')
    t.match(await spawnIngest(['backup', '--store', store, backup]), { code: 0 })
    t.strictSame(foreignIn(directory), [], 'a backup belongs to the owner of the directory around it')
    renameSync(store, old)
    t.match(await spawnIngest(['restore', backup, '--store', store]), { code: 0 })
    t.match(await asUser(['repair', '--store', old, '--to', join(directory, 'repaired')]), { code: 0 })
  }
})

t.test('a user who is neither root nor the owner creates nothing in a store', { skip }, async (t) => {
  const { store } = await openUserStore(t)
  for (const name of ['', ...readdirSync(store, { recursive: true, encoding: 'utf8' })]) {
    chmodSync(join(store, name), 0o777)
  }
  const other = ['setpriv', '--reuid', '65533', '--regid', '65533', '--clear-groups', 'env', 'HOME=/tmp']
  const asOther = () => ended(startCommand([...other, ...ingestCommand(['stats', '--store', store])], otherEnvironment))
  t.match(await asOther(), { code: 0 })
  for (const name of ['ids', 'events/gate', 'events/lock.mdb']) {
    renameSync(join(store, name), join(store, 'away'))
    const expected = `^ingest: .*${name}.* is missing, and the store belongs to uid ${uid}, .* uid 65533\\. Run it as that user\\.\\n$`
    t.match(await asOther(), { code: 2, stderr: new RegExp(expected) }, name)
    t.notOk(existsSync(join(store, name)), 'nothing is created')
    renameSync(join(store, 'away'), join(store, name))
  }
})
