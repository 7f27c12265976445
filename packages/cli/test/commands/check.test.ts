import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { projectId } from '../served.ts'

const directory = t.testdir()
let count = 0

function fileOf(text: string): string {
  const path = join(directory, `${++count}.json`)
  writeFileSync(path, text)
  return path
}

async function checkJson(text: string, ...args: string[]) {
  const { code, stdout } = await ingest(['check', fileOf(text), '--json', ...args])
  t.match(stdout, /^\{.*\}\n$/, 'one object')
  return { code, ...JSON.parse(stdout) }
}

const event = (i: number, more = '') => `{"projectId":"${projectId}","eventId":"e-${i}"${more}}`
const good = Array.from({ length: 250 }, (_, i) => event(i))

t.test('valid events: exit code 0, as lines, as an array and from standard input', async (t) => {
  const lines = fileOf(`${good.join('\n')}\n`)
  const said = /^checked 250 events of game-1: 250 would be accepted, 0 duplicates, 0 rejected; \d+\.\d kB\n$/
  t.match(await ingest(['check', lines]), { code: 0, stdout: said, stderr: /^$/ })
  t.match(await ingest(['check', fileOf(`[${good.join(',\n')}]`)]), { code: 0, stdout: said, stderr: /^$/ })
  t.match(await ingest(['check', '-'], { stdin: good.join('\n') }), { code: 0, stdout: said, stderr: /^$/ })
  t.match(await checkJson(good.join('\n')), {
    code: 0,
    ok: true,
    projectId,
    events: 250,
    accepted: 250,
    duplicates: 0,
    rejected: 0,
    bytes: good.join('\n').length,
  })
  t.strictSame(await ingest(['check', lines, '--quiet']), { code: 0, signal: null, stdout: '', stderr: '' })
})

t.test('an empty file is valid', async (t) => {
  t.match(await ingest(['check', fileOf('')]), { code: 0, stdout: /^checked 0 events: 0 would be accepted/ })
})

t.test('invalid events and repeated ids are printed with their positions: exit code 5', async (t) => {
  const text = [
    event(1),
    event(2, ',"buildId":7'),
    '{"a":',
    event(1, ',"n":2'),
    event(1, ',"buildId":7'),
    '{"projectId":"other","eventId":"e-1"}',
    event(2),
  ].join('\n')
  t.match(await ingest(['check', fileOf(text)]), {
    code: 5,
    stdout: /^checked 7 events of game-1: 2 would be accepted, 2 duplicates, 3 rejected; .*\n$/,
    stderr: [
      'ingest: line 4, e-1: The eventId repeats line 1.',
      'ingest: line 5, e-1: The eventId repeats line 1.',
      'ingest: line 2, e-2: /buildId: Expected a string.',
      'ingest: line 3: Expected a JSON object in UTF-8, in one line.',
      'ingest: line 6, e-1: /projectId: Expected the project that the request is made for.',
      'ingest: 5 of 7 events would not be stored',
      '',
    ].join('\n'),
  })
  const rejected = join(directory, 'rejected')
  t.match(await checkJson(text, '--rejected', rejected), {
    code: 5,
    ok: false,
    accepted: 2,
    duplicates: 2,
    rejected: 3,
    error: { code: 'events-rejected', retryable: false },
  })
  t.strictSame(
    readFileSync(rejected, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => [JSON.parse(line).line, JSON.parse(line).issues[0].code]),
    [
      [2, 'invalid_type'],
      [3, 'not_object'],
      [6, 'project_mismatch'],
    ],
  )
  t.match(await checkJson(`${event(1)}\n${event(1)}`), { code: 5, error: { code: 'events-repeated' } })
})

t.test('the project is that of the first event, or --project, which events may omit', async (t) => {
  const withoutProject = '{"eventId":"e"}'
  t.match(await checkJson(`${event(1)}\n${withoutProject}`), { code: 5, accepted: 1, rejected: 1 })
  t.match(await checkJson(`${event(1)}\n${withoutProject}`, '--project', projectId), { code: 0, accepted: 2 })
  t.match(await checkJson(event(1), '--project', 'other'), { code: 5, projectId: 'other', rejected: 1 })
  await isWrongUsage(
    t,
    ['check', fileOf(withoutProject)],
    /The first event has no valid projectId: name the project with --project/,
  )
  await isWrongUsage(t, ['check', fileOf(withoutProject), '--project', 'a b'], /Expected a project id: 1 to 64/)
})

t.test('events without an id are rejected without --make-ids', async (t) => {
  const text = `{"projectId":"${projectId}"}\n{"projectId":"${projectId}"}`
  t.match(await checkJson(text), { code: 5, rejected: 2 })
  t.match(await checkJson(text, '--make-ids'), { code: 0, accepted: 2 })
})

t.test('invalid JSON is exit code 5, an unreadable file is wrong usage', async (t) => {
  t.match(await ingest(['check', fileOf('eventId,type\n1,2\n')]), {
    code: 5,
    stdout: /^$/,
    stderr: /^ingest: .*neither.*\n$/,
  })
  t.match(await checkJson(`[${event(1)}`), {
    code: 5,
    ok: false,
    events: 0,
    error: { code: 'malformed-body', message: /no end/ },
  })
  await isWrongUsage(t, ['check'], /missing <file>/)
  await isWrongUsage(t, ['check', join(directory, 'none')], /cannot be read/)
  const file = fileOf(event(1))
  await isWrongUsage(t, ['check', file, '--rejected', file], /is the input file/)
  t.match(await checkJson(event(1), '--nonsense'), { code: 2, ok: false, error: { code: 'invalid-argument' } })
})
