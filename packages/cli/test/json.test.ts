import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import type { Command } from 'commander'
import t, { type Test } from 'tap'
import { createProgram } from '../src/program.ts'
import { run } from '../src/run.ts'
import { createIo } from './run-ingest.ts'
import { openServed } from './served.ts'

// --json is one contract for all commands: one object on standard output (or NDJSON of events) with `ok`, times in RFC
// 3339, null for missing values, and one object for every failure

const directory = t.testdir()
const data = join(directory, 'data')
const projectId = 'demo'
const files = {
  events: join(directory, 'events.ndjson'),
  map: join(directory, 'map.json'),
  key: join(directory, 'key'),
}
writeFileSync(files.events, '{"eventId":"e-1","buildId":"b"}\n')
writeFileSync(files.map, '{}')
const store = ['--store', data, '--project', projectId]
const unreachable = ['--url', 'http://127.0.0.1:1', '--project', projectId, '--retries', '0']
const map = ['--place', '1', '--build', 'b']
const served = await openServed(t)
writeFileSync(files.key, served.key)
await served.project.submitBatch({ events: [5 as never] })
const { keys, project, close } = createIngest({ store: await openLmdbStore(data) })
const [{ record: key }, { record: other }] = [await keys.create(projectId), await keys.create(projectId)]
await project(projectId).submitBatch({ events: [{ projectId, eventId: 'e-0', type: 'kill' }] })
await close()

interface Case {
  done: string[]
  failed: string[]
  code: string
  /** Whether it prints one line per event, and an object only on failure. */
  isStream?: true
}

/** A valid command line, and a failing one with its code, of every command, in an order in which they can run. */
const cases: Record<string, Case> = {
  'keys create': { done: store, failed: [...store, '--scope', 'all'], code: 'invalid-argument' },
  'keys list': { done: store, failed: ['--store', `${data}-not`, '--project', projectId], code: 'store-missing' },
  'keys revoke': { done: [key.keyId, ...store], failed: ['00000000', ...store], code: 'unknown-key' },
  'keys rotate': { done: [other.keyId, ...store], failed: ['00000000', ...store], code: 'unknown-key' },
  send: { done: [files.events, ...store], failed: [files.events, ...unreachable], code: 'connection-failed' },
  export: {
    done: [...store, '--output', join(directory, 'files')],
    failed: [...store, '--output', files.map],
    code: 'invalid-argument',
  },
  tail: {
    done: [...store, '--since', '1h'],
    failed: [...store, '--after', 'x'],
    code: 'invalid-cursor',
    isStream: true,
  },
  find: { done: ['e-0', ...store], failed: ['none', ...store], code: 'event-not-found' },
  stats: { done: store, failed: unreachable, code: 'connection-failed' },
  'consumers set': {
    done: ['a', ...store, '--end'],
    failed: ['a', ...store, '--event', 'none'],
    code: 'event-not-found',
  },
  'consumers list': { done: store, failed: unreachable, code: 'connection-failed' },
  'consumers delete': { done: ['a', ...store], failed: ['none', ...store], code: 'consumer-not-found' },
  rejected: {
    done: ['--url', served.url, '--project', served.project.projectId, '--key-file', files.key],
    failed: unreachable,
    code: 'connection-failed',
  },
  'publish-map': {
    done: [files.map, ...map, ...store],
    failed: [files.map, ...map, ...unreachable],
    code: 'connection-failed',
  },
  'maps list': { done: store, failed: unreachable, code: 'connection-failed' },
  'maps show': { done: [...map, ...store], failed: ['--place', '2', '--build', 'b', ...store], code: 'map-not-found' },
  'maps download': {
    done: [...map, ...store, '--output', join(directory, 'copy.json')],
    failed: [...map, ...store],
    code: 'invalid-argument',
  },
  'maps verify': {
    done: [...map, ...store],
    failed: [...map, ...store, '--file', files.events],
    code: 'digest-mismatch',
  },
  copy: {
    done: ['--from', data, '--to', join(directory, 'copied')],
    failed: ['--from', `${data}-not`, '--to', join(directory, 'copied')],
    code: 'store-missing',
  },
  migrate: { done: ['--print'], failed: ['--store', data], code: 'invalid-argument' },
  restore: {
    done: [data, '--store', join(directory, 'restored')],
    failed: [`${data}-not`, '--store', join(directory, 'made')],
    code: 'store-missing',
  },
  backup: {
    done: [join(directory, 'backup'), '--store', data],
    failed: [join(data, 'inside'), '--store', data],
    code: 'invalid-argument',
  },
  verify: { done: ['--store', data], failed: ['--store', `${data}-not`], code: 'store-missing' },
  repair: {
    done: ['--store', join(directory, 'backup'), '--to', join(directory, 'repaired')],
    failed: ['--store', `${data}-not`, '--to', join(directory, 'made')],
    code: 'store-missing',
  },
  erase: {
    done: [...store, '--player', '7', '--yes'],
    failed: ['--store', `${data}-not`, '--project', projectId, '--player', '7', '--yes'],
    code: 'store-missing',
  },
  conformance: {
    done: ['--list'],
    // Node reads the events as a program
    failed: ['--rule', 'request', '--patience', '1s', process.execPath],
    code: 'rules-failed',
  },
  serve: {
    done: ['--store', data, '--listen', '127.0.0.1:0'],
    failed: ['--store', data, '--listen', '203.0.113.1:0'],
    code: 'invalid-argument',
  },
}

/** Runs a command with --json; SIGTERM ends one that runs until a signal, after its first line. */
async function runJson(args: readonly string[], runsUntilSignal: boolean) {
  const { io, stdout, nextLine, signal } = createIo({ env: { INGEST_KEY: 'ik_none' } })
  if (runsUntilSignal) nextLine().then(() => signal('SIGTERM'))
  const code = await run([...args, '--json'], io)
  const lines = stdout().split('\n')
  return { code, end: lines.pop(), objects: lines.map((line) => JSON.parse(line)) }
}

/** Asserts that members named like a time are RFC 3339, or null. */
function hasTimes(t: Test, value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (/[a-z]At$/.test(name) && member !== null) t.match(member, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, name)
    hasTimes(t, member)
  }
}

function namesOf(command: Command, words: string[] = []): string[] {
  if (command.commands.length === 0) return [words.join(' ')]
  return command.commands.flatMap((each) => namesOf(each, [...words, each.name()]))
}

t.test('every command has --json', async (t) => {
  t.strictSame(Object.keys(cases).sort(), namesOf(createProgram(createIo().io)).sort())
})

for (const [name, { done, failed, code, isStream = false }] of Object.entries(cases)) {
  t.test(`${name} --json: one object when it works, when it fails, and for an invalid command line`, async (t) => {
    const words = name.split(' ')
    const worked = await runJson([...words, ...done], ['serve', 'tail'].includes(name))
    t.strictSame([worked.code, worked.end], [isStream ? 143 : 0, ''])
    const [object] = worked.objects
    if (isStream) t.match(object, { cursor: String, event: { eventId: 'e-0' } })
    else {
      t.strictSame([worked.objects.length, Object.keys(object)[0], object.ok], [1, 'ok', true])
      hasTimes(t, object)
    }

    for (const [args, error] of [
      [failed, { code, message: /./, retryable: Boolean }],
      [[...done, '--nonsense'], { code: 'invalid-argument', message: /--nonsense/, retryable: false }],
    ] as const) {
      const { code: exitCode, end, objects } = await runJson([...words, ...args], false)
      t.not(exitCode, 0)
      t.strictSame([end, objects.length], ['', 1])
      t.match(objects[0], { ok: false, error })
      t.strictSame(Object.keys(objects[0].error), ['code', 'message', 'retryable'])
      hasTimes(t, objects[0])
    }
  })
}

t.test('members without a value are null, not missing', async (t) => {
  const { objects } = await runJson(['keys', 'list', ...store], false)
  t.match(objects[0].keys[0], { keyId: key.keyId, expiresAt: null, revokedAt: String })
  t.match(objects[0].keys.at(-1), { expiresAt: null, revokedAt: null })
  t.match((await runJson(['stats', '--builds', ...store], false)).objects[0].builds, [
    { buildId: 'b', frozenAt: String },
  ])
  await runJson(['keys', 'create', '--store', data, '--project', 'quiet'], false)
  t.match((await runJson(['stats', '--store', data, '--project', 'quiet'], false)).objects[0].projects, [
    { firstAt: null },
  ])
})
