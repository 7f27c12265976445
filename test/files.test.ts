import { posix } from 'node:path'
import t from 'tap'
import { files, textOf } from './repository.ts'

t.test('no file is named utils, helpers, common, misc, shared or types', async (t) => {
  const rest = /^(utils?|helpers?|common|misc|shared|types)$/
  t.strictSame(
    files.filter((file) => file.split('/').some((part) => rest.test(part.replace(/\.[^.]+$/, '')))),
    [],
  )
})

t.test('index.ts is used for package entries only', async (t) => {
  const indexes = files.filter((file) => posix.basename(file) === 'index.ts')
  t.strictSame(
    indexes.filter((file) => !/^packages\/[^/]+\/src\/index\.ts$/.test(file)),
    [],
  )
})

t.test('the lockfile contains no URL', async (t) => {
  const lines = textOf('pnpm-lock.yaml').split('\n')
  t.strictSame(
    lines.filter((line) => /:\/\/|\btarball:|\bregistry:/.test(line)),
    [],
  )
})

t.test('workflows name the commit of every action', async (t) => {
  const uses = files
    .filter((file) => file.startsWith('.github/workflows/'))
    .flatMap((file) => textOf(file).match(/(?<=\buses: ).*/g) ?? [])
  t.not(uses.length, 0)
  t.strictSame(
    uses.filter((action) => !/@[\da-f]{40} # v\d/.test(action)),
    [],
  )
})

t.test('no file contains a path of the machine it was written on', async (t) => {
  const machinePath = /(?<![\w.:/-])\/(?:home|root|Users|work|workspace)\/\w|[A-Z]:\\Users\\|file:\/\/\/\w/
  t.match('in /Users/someone/ingest', machinePath)
  const found = files.flatMap((file) => {
    const lines = file.endsWith('files.test.ts') ? [] : textOf(file).split('\n')
    return lines.flatMap((line, i) => (machinePath.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : []))
  })
  t.strictSame(found, [])
})

t.test('only these modules create files: what another one creates belongs into the table of files', async (t) => {
  const calls =
    /\b(writeFile|mkdir|mkdtemp|rename|link|symlink|copyFile|cp|appendFile|createWriteStream)(Sync)?\(|'[aw]x?\+?'|O_CREAT/
  const modules = files.filter(
    (file) => /^packages\/(?!bench)[^/]+\/src\/.*\.ts$/.test(file) && !file.includes('/page/'),
  )
  const found = modules.filter((file) => /from 'node:fs/.test(textOf(file)) && calls.test(textOf(file)))
  t.strictSame(
    found.map((file) => file.replace('packages/', '')),
    [
      'checks/src/sender/play.ts',
      'checks/src/sender/rules/spool.ts',
      'client/src/sender/segment-writer.ts',
      'client/src/sender/spool.ts',
      'client/src/upload/map-source.ts',
      'core/src/files/lock-directory.ts',
      'core/src/files/make-directory.ts',
      'core/src/files/write-file.ts',
      'export/src/cursor-file.ts',
      'export/src/export-directory.ts',
      'lmdb/src/backup/restore-lmdb-store.ts',
      'lmdb/src/backup/staging.ts',
      'lmdb/src/environment/directory.ts',
      'lmdb/src/environment/gate.ts',
      'lmdb/src/ids/id-index.ts',
    ],
  )
})
