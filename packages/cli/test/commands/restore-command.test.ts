import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { type Ended, spawnIngest as ingest, startServe } from '../ingest-process.ts'
import { createKey, parseExport, projectId } from '../sender.ts'

async function store(data: string, ...eventIds: string[]): Promise<void> {
  const to = createIngest({ store: await openLmdbStore(data) })
  for (const eventId of eventIds)
    await to.project(projectId).submitBatch({ events: [{ projectId, eventId, buildId: 'b' }] })
  await to.close()
}

/** The ids of the events in the files of a directory, in the order of their names. */
function idsIn(output: string): string[] {
  const names = readdirSync(output).filter((name) => !name.startsWith('.'))
  const texts = names.map((name) => readFileSync(join(output, name), 'utf8'))
  return parseExport(texts.join('')).map(({ event }) => JSON.parse(event).eventId)
}

const target = (data: string) => ['--data', data, '--project', projectId]

/** Every file of a directory, with its bytes; LMDB's locks are no part of the store. */
function filesOf(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile() && entry.name !== 'lock.mdb')
  return Object.fromEntries(
    paths.map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), 'base64')]),
  )
}

t.test(
  'backup, store, export, restore, store, export: the second export is refused, and says how to go on',
  async (t) => {
    const path = t.testdir()
    const [data, backup, files, more] = ['data', 'backup', 'files', 'more'].map((name) => join(path, name)) as [
      string,
      string,
      string,
      string,
    ]
    await store(data, 'a', 'b')
    cpSync(data, backup, { recursive: true })
    await store(data, 'lost')
    const args = ['export', ...target(data), '--output', files]
    t.match(await ingest(args), { code: 0, stdout: /exported 3 events/ })
    renameSync(data, `${data}-failed`)

    const restored = await ingest(['restore', backup, '--data', data, '--json'])
    t.match(restored, { code: 0, stderr: '' })
    const [row] = JSON.parse(restored.stdout).projects
    t.match(row, { projectId, events: 2, cursor: /^[\w-]{32}$/ })
    for (const isLonger of [false, true]) {
      if (isLonger) await store(data, 'new-1', 'new-2', 'new-3')
      const before = filesOf(files)
      const refused = await ingest(args)
      t.match(refused, {
        code: 2,
        stdout: '',
        stderr: /does not fit the store: .* before a backup of the store was restored/,
      })
      t.match(refused.stderr, /export into another directory: with --after and the cursor/)
      t.strictSame(filesOf(files), before)
      const json = JSON.parse((await ingest([...args, '--json'])).stdout)
      t.match(json, { ok: false, error: { code: 'invalid-cursor', retryable: false } })
    }
    const moreArgs = ['export', ...target(data), '--output', more, '--after', row.cursor]
    t.match(await ingest(moreArgs), { code: 0, stdout: /exported 3 events/ })
    await store(data, 'new-4')
    t.match(await ingest(moreArgs), { code: 0, stdout: /exported 1 event:/ })
    t.strictSame([...idsIn(files), ...idsIn(more)], ['a', 'b', 'lost', 'new-1', 'new-2', 'new-3', 'new-4'])
  },
)

t.test(
  'a directory that is put back by hand: a cursor file that is ahead of it is refused, at any length',
  async (t) => {
    const path = t.testdir()
    const [data, backup, files] = ['data', 'backup', 'files'].map((name) => join(path, name)) as [
      string,
      string,
      string,
    ]
    await store(data, 'a', 'b')
    cpSync(data, backup, { recursive: true })
    await store(data, 'lost')
    const args = ['export', ...target(data), '--output', files]
    t.match(await ingest(args), { code: 0 })
    rmSync(data, { recursive: true })
    cpSync(backup, data, { recursive: true })
    for (const more of [[], ['new-1'], ['new-2', 'new-3']]) {
      await store(data, ...more)
      t.match(await ingest(args), {
        code: 2,
        stdout: '',
        stderr: /event of the cursor is not in the store/,
      })
    }
  },
)

t.test('a cursor file of another store, and over HTTP of another project, is refused', async (t) => {
  const path = t.testdir()
  const [data, other, files] = ['data', 'other', 'files'].map((name) => join(path, name)) as [string, string, string]
  for (const each of [data, other]) await store(each, 'a', 'b')
  t.match(await ingest(['export', ...target(data), '--output', files]), { code: 0 })
  const key = await createKey(other)
  const { url } = await startServe(t, ['--data', other])
  const byUrl = await ingest(['export', '--url', url, '--project', projectId, '--output', files], {
    env: { INGEST_KEY: key },
  })
  const byData = await ingest(['export', ...target(other), '--output', files])
  for (const refused of [byUrl, byData]) t.match(refused, { code: 2, stderr: /cursor is of another store/ })
  t.strictSame(idsIn(files), ['a', 'b'])

  const lines = (await ingest(['export', ...target(other)])).stdout
  const after = parseExport(lines)[0]?.cursor ?? ''
  const elsewhere = ['--data', other, '--project', 'another']
  for (const command of ['export', 'tail']) {
    t.match(await ingest([command, ...elsewhere, '--after', after]), {
      code: 2,
      stdout: '',
      stderr: /^ingest: The cursor is of another project\.\n$/,
    })
  }
})

t.test('what cannot be restored, or restored into, is refused', async (t) => {
  const path = t.testdir()
  const data = join(path, 'data')
  await store(data, 'a')
  const before = filesOf(data)
  t.match(await ingest(['restore', data, '--data', data]), { code: 2, stderr: /is not empty: move it away/ })
  t.match(await ingest(['restore', join(path, 'none'), '--data', join(path, 'new')]), {
    code: 2,
    stderr: /There is no store in/,
  })
  t.strictSame(filesOf(data), before)
})

/** What may become of one of the directories. */
const losses: Record<string, (path: string) => void> = {
  'is missing': (path) => rmSync(path, { recursive: true }),
  'is empty': (path) => {
    rmSync(path, { recursive: true })
    mkdirSync(path)
  },
  'has lost its data file': (path) => rmSync(join(path, 'data.mdb')),
}

t.test('a store of which a part is gone is refused by every command, and nothing in it changes', async (t) => {
  const path = t.testdir()
  const whole = join(path, 'whole')
  const file = join(path, 'map.json')
  writeFileSync(file, '{"walls":4}')
  const other = join(path, 'other')
  for (const data of [whole, other]) {
    await store(data, 'a')
    t.match(await ingest(['publish-map', file, ...target(data), '--place', '1', '--build', 'b']), { code: 0 })
  }
  const foreign = (name: string) => (at: string) => cpSync(join(other, name), at, { recursive: true })
  for (const name of ['events', 'chunks']) {
    for (const [what, lose] of Object.entries({ ...losses, 'is of another store': foreign(name) })) {
      const data = join(path, `${name} ${what}`)
      cpSync(whole, data, { recursive: true })
      lose(join(data, name))
      const before = filesOf(data)
      const commands = [
        ['serve', '--data', data, '--port', '0'],
        ['keys', 'create', ...target(data)],
        ['keys', 'list', ...target(data)],
        ['export', ...target(data)],
        ['maps', 'list', ...target(data)],
      ]
      const ended: Ended[] = await Promise.all(commands.map((command) => ingest(command)))
      for (const [i, { code, stdout, stderr }] of ended.entries()) {
        t.strictSame([code, stdout], [5, ''], `${commands[i]?.[0]} with ${name} that ${what}`)
        t.match(stderr, /(events|chunks) (is missing or empty|does not belong).* restore the whole directory/)
      }
      t.strictSame(filesOf(data), before, `nothing changes where ${name} ${what}`)
    }
  }
  const data = join(path, 'ids')
  cpSync(whole, data, { recursive: true })
  rmSync(join(data, 'ids'), { recursive: true })
  t.match(await ingest(['find', 'a', ...target(data)]), { code: 0, stdout: /"eventId":"a"/ })
  t.match(await ingest(['maps', 'download', ...target(data), '--place', '1', '--build', 'b']), { code: 0 })
})
