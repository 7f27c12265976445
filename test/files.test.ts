import { posix } from 'node:path'
import t from 'tap'
import { files, textOf } from './repository.ts'

t.test('a file is called by what it is, not by being a rest', async (t) => {
  const rest = /^(utils?|helpers?|common|misc|shared|types)$/
  t.strictSame(
    files.filter((file) => file.split('/').some((part) => rest.test(part.replace(/\.[^.]+$/, '')))),
    [],
  )
})

t.test('an index stands only where a package is entered', async (t) => {
  const indexes = files.filter((file) => posix.basename(file) === 'index.ts')
  t.strictSame(
    indexes.filter((file) => !/^packages\/[^/]+\/src\/(testing\/)?index\.ts$/.test(file)),
    [],
  )
})

t.test('the lockfile names no host', async (t) => {
  const lines = textOf('pnpm-lock.yaml').split('\n')
  t.strictSame(
    lines.filter((line) => /:\/\/|\btarball:|\bregistry:/.test(line)),
    [],
  )
})

t.test('no file holds a path of the machine that it was written on', async (t) => {
  const machinePath = /(?<![\w.:/-])\/(?:home|root|Users|work|workspace)\/\w|[A-Z]:\\Users\\|file:\/\/\/\w/
  t.match('in /Users/someone/ingest', machinePath)
  const found = files.flatMap((file) => {
    const lines = file.endsWith('files.test.ts') ? [] : textOf(file).split('\n')
    return lines.flatMap((line, i) => (machinePath.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : []))
  })
  t.strictSame(found, [])
})
