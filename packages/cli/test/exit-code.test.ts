import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes } from '@ingest/core'
import t from 'tap'
import { exitCode, exitCodeHelp, exitCodes } from '../src/exit-code.ts'
import { ingest } from './run-ingest.ts'
import { createKey, projectId } from './sender.ts'

t.test('every refusal has an exit code, and no refusal is done', (t) => {
  t.strictSame(Object.keys(exitCodes).sort(), [...errorCodes].sort())
  t.notOk(Object.values(exitCodes).includes(exitCode.done))
  t.end()
})

t.test('the table in --help names each exit code once', (t) => {
  const named = Array.from(exitCodeHelp.matchAll(/^ {2}(\d) {2}\S/gm), ([, code]) => Number(code))
  t.strictSame(named, Object.values(exitCode))
  t.end()
})

t.test('a store that is damaged or foreign: exit 5 and one line, and nothing is changed', async (t) => {
  const data = t.testdir()
  await createKey(data)
  const path = join(data, 'events', 'data.mdb')
  const intact = readFileSync(path)
  const damages: [string, Buffer][] = [
    ['zeroed', Buffer.alloc(intact.length)],
    ['cut', intact.subarray(0, -4096)],
    ['cut in its header', intact.subarray(0, 100)],
    ['foreign', Buffer.from('SQLite format 3\0'.repeat(1000))],
  ]
  const store = ['--data', data, '--project', projectId]
  const commands = [
    ['export', ...store],
    ['keys', 'list', ...store],
    ['keys', 'create', ...store],
    ['serve', '--data', data, '--port', '0'],
  ]
  for (const [name, bytes] of damages) {
    writeFileSync(path, bytes)
    for (const command of name === 'zeroed' ? commands : commands.slice(0, 1)) {
      t.match(
        await ingest(command),
        { code: 5, stdout: /^$/, stderr: /^ingest: .*data\.mdb cannot be opened: .*\n$/ },
        `${name}: ${command[0]}`,
      )
    }
    t.ok(readFileSync(path).equals(bytes))
  }
  writeFileSync(path, intact)
  t.match(await ingest(['keys', 'list', ...store]), { code: 0, stderr: /^$/ }, 'a copy brings it back')
  rmSync(path)
  t.match(await ingest(['export', ...store]), { code: 5, stderr: /^ingest: .* is missing or empty, and .*\n$/ })
  t.notOk(existsSync(path))
  t.match(await ingest(['export', '--data', join(data, 'none'), '--project', projectId]), {
    code: 2,
    stdout: /^$/,
    stderr: /^ingest: There is no store in .*\n$/,
  })
})
