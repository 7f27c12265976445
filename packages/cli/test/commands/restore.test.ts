import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ingest } from '@ingest/core'
import t from 'tap'
import { spawnIngest } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { openServed, parseExport, projectId, submitIds, withStore } from '../served.ts'

function submit(data: string, ...eventIds: string[]): Promise<void> {
  return withStore(data, async (project: Ingest) => {
    for (const eventId of eventIds) await project.submitBatch({ events: [{ projectId, eventId, buildId: 'b' }] })
  })
}

/** The ids of the events in the files of a directory, in the order of their names. */
function idsIn(output: string): string[] {
  const names = readdirSync(output).filter((name) => !name.startsWith('.'))
  const texts = names.map((name) => readFileSync(join(output, name), 'utf8'))
  return parseExport(texts.join('')).map(({ event }) => JSON.parse(event).eventId)
}

const target = (data: string) => ['--store', data, '--project', projectId]

/** Every file of a directory with its bytes, except LMDB's locks, which are not part of the store. */
function filesOf(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile() && entry.name !== 'lock.mdb')
  return Object.fromEntries(
    paths.map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), 'base64')]),
  )
}

t.test('after a restore, an export with an old cursor file is refused, and continues with a new one', async (t) => {
  const path = t.testdir()
  const [data = '', backup = '', files = '', more = ''] = ['data', 'backup', 'files', 'more'].map((name) =>
    join(path, name),
  )
  await submit(data, 'a', 'b')
  cpSync(data, backup, { recursive: true })
  await submit(data, 'lost')
  const args = ['export', ...target(data), '--output', files]
  t.match(await ingest(args), { code: 0, stdout: /exported 3 events/ })
  renameSync(data, `${data}-failed`)

  const restored = await spawnIngest(['restore', backup, '--store', data, '--json'])
  t.match(restored, { code: 0, stderr: '' })
  const [row] = JSON.parse(restored.stdout).projects
  t.match(row, { projectId, events: 2, cursor: /^[\w-]{32}$/ })
  for (const isLonger of [false, true]) {
    if (isLonger) await submit(data, 'new-1', 'new-2', 'new-3')
    const before = filesOf(files)
    const refused = await ingest([...args, '--json'])
    t.match(refused, {
      code: 2,
      stderr: /does not match the store: .* before a backup of the store was restored/,
    })
    t.match(refused.stderr, /export to another directory: with --after and the cursor/)
    t.match(JSON.parse(refused.stdout), { ok: false, error: { code: 'invalid-cursor', retryable: false } })
    t.strictSame(filesOf(files), before)
  }
  const moreArgs = ['export', ...target(data), '--output', more, '--after', row.cursor]
  t.match(await ingest(moreArgs), { code: 0, stdout: /exported 3 events/ })
  await submit(data, 'new-4')
  t.match(await ingest(moreArgs), { code: 0, stdout: /exported 1 event:/ })
  t.strictSame([...idsIn(files), ...idsIn(more)], ['a', 'b', 'lost', 'new-1', 'new-2', 'new-3', 'new-4'])
})

t.test(
  'a directory that was copied back by hand: a cursor file ahead of the log is refused, at any length',
  async (t) => {
    const path = t.testdir()
    const [data = '', backup = '', files = ''] = ['data', 'backup', 'files'].map((name) => join(path, name))
    await submit(data, 'a', 'b')
    cpSync(data, backup, { recursive: true })
    await submit(data, 'lost')
    const args = ['export', ...target(data), '--output', files]
    t.match(await ingest(args), { code: 0 })
    rmSync(data, { recursive: true })
    cpSync(backup, data, { recursive: true })
    for (const more of [[], ['new-1'], ['new-2', 'new-3']]) {
      if (more.length > 0) await submit(data, ...more)
      t.match(await ingest(args), {
        code: 2,
        stdout: '',
        stderr: /event of the cursor is not in the store/,
      })
    }
  },
)

t.test('the cursor file of another store, and the cursor of another project, are refused', async (t) => {
  const path = t.testdir()
  const [data = '', files = ''] = ['data', 'files'].map((name) => join(path, name))
  await submit(data, 'a', 'b')
  const { env, project, embedded } = await openServed(t)
  await submitIds(project, ['a', 'b'])
  t.match(await ingest(['export', '--output', files], { env }), { code: 0 })
  const refused = await ingest(['export', ...target(data), '--output', files])
  t.match(refused, { code: 2, stderr: /cursor is of another store/ })
  const other = await openServed(t)
  await submitIds(other.project, ['a', 'b'])
  const served = await ingest(['export', '--output', files], { env: other.env })
  t.match(served, { code: 2, stderr: /cursor is of another store/ })
  t.strictSame(idsIn(files), ['a', 'b'])

  const after = await project.lastCursor()
  const { key } = await embedded.keys.create('another')
  for (const command of ['export', 'tail']) {
    const args = [command, '--project', 'another', '--after', after]
    t.match(await ingest(args, { env: { ...env, INGEST_KEY: key } }), {
      code: 2,
      stdout: '',
      stderr: /^ingest: The cursor is of another project\.\n$/,
    })
  }
})

t.test('a missing backup, and a directory that is not empty, are refused', async (t) => {
  const path = t.testdir()
  const data = join(path, 'data')
  await submit(data, 'a')
  const before = filesOf(data)
  t.match(await ingest(['restore', data, '--store', data]), { code: 2, stderr: /is not empty: move it away/ })
  t.match(await ingest(['restore', join(path, 'none'), '--store', join(path, 'new')]), {
    code: 2,
    stderr: /There is no store in/,
  })
  t.strictSame(filesOf(data), before)
})

/** Ways to lose a part of a store. */
const losses: Record<string, (path: string) => void> = {
  'is missing': (path) => rmSync(path, { recursive: true }),
  'is empty': (path) => {
    rmSync(path, { recursive: true })
    mkdirSync(path)
  },
  'has lost its data file': (path) => rmSync(join(path, 'data.mdb')),
}

t.test('a store that has lost a part is refused by every command, and not changed', async (t) => {
  const path = t.testdir()
  const whole = join(path, 'whole')
  const file = join(path, 'map.json')
  writeFileSync(file, '{"walls":4}')
  const other = join(path, 'other')
  for (const data of [whole, other]) {
    await submit(data, 'a')
    t.match(await ingest(['publish-map', file, ...target(data), '--place', '1', '--build', 'b']), { code: 0 })
  }
  const foreign = (name: string) => (at: string) => cpSync(join(other, name), at, { recursive: true })
  for (const name of ['events', 'chunks']) {
    for (const [loss, lose] of Object.entries({ ...losses, 'is of another store': foreign(name) })) {
      const data = join(path, `${name} ${loss}`)
      cpSync(whole, data, { recursive: true })
      lose(join(data, name))
      const before = filesOf(data)
      const commands = [
        ['serve', '--store', data, '--listen', '127.0.0.1:0'],
        ['keys', 'create', ...target(data)],
        ['keys', 'list', ...target(data)],
        ['export', ...target(data)],
        ['maps', 'list', ...target(data)],
      ]
      for (const command of commands) {
        const { code, stdout, stderr } = await ingest(command)
        t.strictSame([code, stdout], [5, ''], `${command[0]} with ${name} that ${loss}`)
        t.match(stderr, /(events|chunks) (is missing or empty|does not belong).* restore the whole directory/)
      }
      t.strictSame(filesOf(data), before, `nothing changes where ${name} ${loss}`)
    }
  }
  const data = join(path, 'ids')
  cpSync(whole, data, { recursive: true })
  rmSync(join(data, 'ids'), { recursive: true })
  t.match(await ingest(['find', 'a', ...target(data)]), { code: 0, stdout: /"eventId":"a"/ })
  t.match(await ingest(['maps', 'download', ...target(data), '--place', '1', '--build', 'b']), { code: 0 })
})
