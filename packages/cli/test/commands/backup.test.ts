import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ingest } from '@ingest/core'
import t from 'tap'
import { ended, startIngest } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { exportedIds, submitIds, withStore } from '../served.ts'

const path = t.testdir()
const data = join(path, 'data')
await withStore(data, (project: Ingest) => submitIds(project, ['a', 'b', 'c']))

/** Flips a bit of the last occurrence of a text in the log. */
function damage(directory: string, text: string): void {
  const file = join(directory, 'events', 'data.mdb')
  const bytes = readFileSync(file)
  for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) bytes[at + 1] = 0x7a
  writeFileSync(file, bytes)
}

t.test('a backup is made, verified, repaired and restored', async (t) => {
  const [backup, restored, repaired] = ['backup', 'restored', 'repaired'].map((name) => join(path, name)) as [
    string,
    string,
    string,
  ]
  t.match(await ingest(['backup', backup, '--store', data]), {
    code: 0,
    stdout: /^backed up 3 events and 0 maps \(.*\) in .*backup, verified, in [\d.]+ s\n$/,
  })
  t.match(await ingest(['verify', '--store', backup]), {
    code: 0,
    stdout: /^verified 3 events in 1 record \(.*\), no id index, 0 maps \(0 B\) in [\d.]+ s: no problems\n$/,
  })
  t.match(await ingest(['restore', backup, '--store', restored]), { code: 0 })
  t.strictSame(await exportedIds(restored), ['a', 'b', 'c'])

  damage(backup, '"eventId"')
  const verified = await ingest(['verify', '--store', backup])
  t.match(verified, { code: 5, stdout: /^Record 1 of the log is damaged\./, stderr: /^ingest: 1 problem: Record 1 / })
  const { stdout } = await ingest(['verify', '--store', backup, '--json'])
  t.match(JSON.parse(stdout), {
    ok: false,
    problemCount: 1,
    problems: [{ part: 'log', record: 1 }],
    error: { code: 'store-damaged' },
  })
  t.match(await ingest(['restore', backup, '--store', join(path, 'not-restored')]), { code: 5, stderr: /Record 1/ })
  const repairing = await ingest(['repair', '--store', backup, '--to', repaired])
  t.match(repairing, {
    code: 0,
    stdout: /^lost: record 1 of game-1\nlost: 3 events of game-1\nsaved 0 events in 0 records, 0 maps and 1 project/,
  })
})

t.test('a database is refused with what to use instead', async (t) => {
  const store = ['--store', 'postgres://u@h/d']
  await isWrongUsage(t, ['backup', join(path, 'x'), ...store], /pg_dump or pgBackRest.*ingest migrate --new-epoch/)
  await isWrongUsage(t, ['verify', ...store], /pg_amcheck/)
  await isWrongUsage(t, ['repair', ...store, '--to', join(path, 'x')], /pg_dump/)
})

t.test('a signal ends a backup, and leaves nothing', async (t) => {
  const target = join(path, 'stopped')
  const child = startIngest(['backup', target, '--store', data, '--json'])
  child.kill('SIGTERM')
  const { code, signal } = await ended(child)
  // before the command listens for signals, it ends the process
  t.ok(code === 143 || signal === 'SIGTERM')
  t.notOk(existsSync(target))
  t.notOk(readdirSync(path).some((name) => name.includes('unfinished')))
})
