import { posix } from 'node:path'
import t from 'tap'
import { files, textOf } from './repository.ts'

/** Sources without a test of the same name, and why. */
const untested: Record<string, string> = {
  'packages/cli/src/bin.ts': 'two lines, run by every test of a command',
  'packages/client/src/index.ts': 'names only',
  'packages/core/src/index.ts': 'names only',
  'packages/core/src/lmdb/activity.ts': 'what a store answers: store-contract.test.ts',
  'packages/core/src/lmdb/appender.ts': 'what a store decides: store-contract.test.ts, and writer.test.ts',
  'packages/core/src/lmdb/builds.ts': 'what a store answers: store-contract.test.ts',
  'packages/core/src/lmdb/event-log.ts': 'what a store decides: store-contract.test.ts',
  'packages/core/src/lmdb/ids/index-worker.ts': 'a thread, run by id-index.test.ts',
  'packages/core/src/lmdb/map-store.ts': 'what a store decides: store-contract.test.ts',
  'packages/core/src/lmdb/write-worker.ts': 'a thread, run by writer-handle.test.ts',
  'packages/core/src/map-content.ts': 'what an ingest reads: ingest-checks.test.ts',
  'packages/core/src/map-status.ts': 'what an ingest answers: ingest-checks.test.ts',
  'packages/core/src/map-store-checks.ts': 'a part of store-checks.ts',
  'packages/core/src/map.ts': 'types only; ingest-checks.ts is their contract',
  'packages/core/src/put-chunks.ts': 'what an ingest answers: ingest-checks.test.ts',
  'packages/core/src/store.ts': 'types only; store-checks.ts is its contract',
  'packages/core/src/testing.ts': 'names only',
  'packages/server/src/answer.ts': 'two lines, run by every test of an answer',
  'packages/server/src/edge-request.ts': 'types only',
  'packages/server/src/index.ts': 'names only',
}

const sources = files.filter((file) => /^packages\/[^/]+\/src\/.*\.ts$/.test(file))

t.test('every source has a test of the same name', async (t) => {
  const testOf = (source: string) => source.replace('/src/', '/test/').replace(/\.ts$/, '.test.ts')
  const without = sources.filter((source) => !files.includes(testOf(source)))
  t.strictSame(without, Object.keys(untested).sort())
})

t.test('a file is called by what it is, not by being a rest', async (t) => {
  const rest = /^(utils?|helpers?|common|misc|shared|types)$/
  t.strictSame(
    files.filter((file) => file.split('/').some((part) => rest.test(part.replace(/\.[^.]+$/, '')))),
    [],
  )
})

t.test('an index stands only at the top of a package', async (t) => {
  const indexes = files.filter((file) => posix.basename(file) === 'index.ts')
  t.strictSame(
    indexes.filter((file) => !/^packages\/[^/]+\/src\/index\.ts$/.test(file)),
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
