import fs, {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { eventBytesMax } from '../../src/batch/fill-batch.ts'
import { segmentBytesMax } from '../../src/sender/segment-writer.ts'
import {
  damagedSegmentsMax,
  openSpool as open,
  type Spool,
  type SpooledEvent,
  type SpoolPosition,
} from '../../src/sender/spool.ts'

/** All unsettled events. */
function readAll(spool: Spool): SpooledEvent[] {
  const events: SpooledEvent[] = []
  for (let more = spool.readAfter({ segment: 0, offset: 0 }); more.length > 0; ) {
    events.push(...more)
    more = spool.readAfter(events.at(-1)?.spooledTo as SpoolPosition)
  }
  return events
}

/** The texts of a spool that was just opened. */
function textsOf(spool: Spool): string[] {
  const events = readAll(spool)
  const bytes = events.reduce((sum, { bytes }) => sum + bytes.length, 0)
  if (spool.left.events !== events.length || spool.left.bytes !== bytes) throw new Error('it is counted otherwise')
  return events.map(({ bytes }) => bytes.toString())
}
const line = (n: number, more = '') => Buffer.from(`{"n":${n},"more":"${more}"}`)
const segmentsIn = (directory: string) => readdirSync(directory).filter((name) => name.endsWith('.spool'))
const segmentName = (n: number) => `${String(n).padStart(16, '0')}.spool`
const openSpool = (directory: string, projectId = 'game-1', bytesMax = 1024 ** 3) =>
  open({ directory, projectId, bytesMax })
/** The length of the first line of a segment, and of the framing of an event. */
const headerBytes = `12345678 #spool 0123456789abcdef game-1\n\n`.length
const aroundBytes = '12345678 \n\n'.length

/** Simulates a killed process, whose lock stays behind. */
function crash(directory: string): void {
  rmSync(join(directory, 'lock'))
}

function openAt(t: Test, directory = join(t.testdir(), 'made', 'spool')) {
  return { directory, spool: openSpool(directory) }
}

t.test('unsettled events are left after a crash, in their order', async (t) => {
  const { directory, spool } = openAt(t)
  t.strictSame(spool.left, { events: 0, bytes: 0 })
  const ends = [0, 1, 2].map((n) => spool.append(line(n)))
  spool.settle(ends[0] as SpoolPosition)
  crash(directory)
  const again = openSpool(directory)
  t.strictSame(
    textsOf(again),
    [1, 2].map(String).map((n) => line(Number(n)).toString()),
  )
  const third = again.append(line(3))
  t.strictSame(third, { segment: 2, offset: headerBytes + aroundBytes + line(3).length })
  again.settle(readAll(again)[1]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [segmentName(2)])
  again.close()
  const last = openSpool(directory)
  t.strictSame(textsOf(last), [line(3).toString()])
  last.settle(readAll(last)[0]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [])
  last.close()
  t.strictSame(readdirSync(directory), ['settled'])
  openSpool(directory).append(line(4))
  crash(directory)
  const emptied = openSpool(directory)
  t.strictSame(textsOf(emptied), [line(4).toString()], 'new events of an emptied spool are left')
  emptied.close()
})

t.test('a segment is full at 1 MiB, and deleted once it is settled', async (t) => {
  const { directory, spool } = openAt(t)
  const big = line(1, 'x'.repeat(segmentBytesMax / 2))
  const ends = Array.from({ length: 5 }, () => spool.append(big) as SpoolPosition)
  t.strictSame(
    ends.map(({ segment }) => segment),
    [1, 1, 2, 2, 3],
  )
  spool.settle(ends[0] as SpoolPosition)
  t.equal(segmentsIn(directory).length, 3)
  spool.settle(ends[3] as SpoolPosition)
  t.strictSame(segmentsIn(directory), [segmentName(3)])
  spool.settle(ends[4] as SpoolPosition)
  t.strictSame(segmentsIn(directory), [segmentName(3)], 'the current segment stays')
  spool.close()
  t.strictSame(segmentsIn(directory), [])
})

t.test('a close syncs every segment, also full ones that are being synced, and their names', async (t) => {
  const { directory, spool } = openAt(t)
  const synced: number[] = []
  const noting = (sync: (fd: number) => void) => (fd: number) => {
    sync(fd)
    synced.push(fs.fstatSync(fd).ino)
  }
  const { fdatasync, fdatasyncSync, fsyncSync } = fs
  const endings: (() => void)[] = []
  const replaced = {
    fdatasync: (_: number, onEnd: () => void) => void endings.push(onEnd),
    fdatasyncSync: noting(fdatasyncSync),
    fsyncSync: noting(fsyncSync),
  }
  Object.assign(fs, replaced)
  syncBuiltinESMExports()
  try {
    for (let n = 0; n < 5; n++) spool.append(line(n, 'x'.repeat(segmentBytesMax / 2)))
    spool.close()
  } finally {
    Object.assign(fs, { fdatasync, fdatasyncSync, fsyncSync })
    syncBuiltinESMExports()
  }
  t.equal(endings.length, 2, 'two segments are full')
  const segments = segmentsIn(directory).map((name) => statSync(join(directory, name)).ino)
  t.strictSame(synced, [...segments, statSync(directory).ino], 'the names last')
  for (const end of endings) end()
})

/** A closed spool of that many events, and the bytes of its only segment. */
function leave(t: Test, count: number) {
  const directory = t.testdir()
  const spool = openSpool(directory)
  const ends = Array.from({ length: count }, (_, n) => spool.append(line(n, 'é')) as SpoolPosition)
  spool.close()
  const path = join(directory, segmentName(1))
  return { directory, path, ends, bytes: readFileSync(path) }
}

t.test('an event that is truncated at any offset is ignored', async (t) => {
  const { directory, path, bytes, ends } = leave(t, 2)
  for (let length = 0; length <= bytes.length; length++) {
    rmSync(directory, { recursive: true })
    mkdirSync(directory)
    writeFileSync(path, bytes.subarray(0, length))
    const spool = openSpool(directory)
    // an event is complete without its two line feeds
    const lines = [line(0, 'é'), line(1, 'é')].filter((_, n) => length >= (ends[n] as SpoolPosition).offset - 2)
    t.strictSame(textsOf(spool), lines.map(String))
    t.equal(spool.damaged, 0)
    spool.append(line(3))
    crash(directory)
    const again = openSpool(directory)
    t.strictSame(textsOf(again), [...lines.map(String), line(3).toString()])
    again.close()
  }
})

t.test('a damaged byte at any offset costs at most its event, and is counted', async (t) => {
  t.capture(process, 'emitWarning')
  const { directory, path, bytes } = leave(t, 3)
  const all = [0, 1, 2].map((n) => line(n, 'é').toString())
  const costs = new Set<number>()
  for (let at = 0; at < bytes.length; at++) {
    for (const damage of [(bytes[at] as number) ^ 1, (bytes[at] as number) ^ 0x80, 0, 0x0a]) {
      if (damage === bytes[at]) continue
      const damaged = Buffer.from(bytes)
      damaged[at] = damage
      writeFileSync(path, damaged)
      const spool = openSpool(directory)
      const texts = textsOf(spool)
      const lost = all.filter((text) => !texts.includes(text)).length
      costs.add(lost)
      // damage at the very end looks like truncation
      const isEnd = at >= bytes.length - 2
      if (!isEnd && spool.damaged !== lost) t.fail(`byte ${at} to ${damage}: ${spool.damaged} counted, ${lost} lost`)
      if (texts.some((text) => !all.includes(text))) t.fail(`byte ${at} to ${damage}: another event came up`)
      spool.close()
    }
  }
  t.strictSame([...costs].sort(), [0, 1])
})

t.test('foreign content in a segment is counted as damage, and the segment is deleted', async (t) => {
  const { directory, path, bytes } = leave(t, 1)
  writeFileSync(path, Buffer.concat([bytes, Buffer.alloc(20), Buffer.from('\n\n{"a":1}\n\n00000000 {"a":1}\n\n12')]))
  writeFileSync(join(directory, segmentName(2)), '\n')
  writeFileSync(join(directory, 'notes.txt'), 'a foreign file')
  const spool = openSpool(directory)
  t.strictSame(textsOf(spool), [line(0, 'é').toString()])
  t.equal(spool.damaged, 3)
  spool.settle(readAll(spool)[0]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [])
  spool.close()
  t.ok(existsSync(join(directory, 'notes.txt')))
})

/** The warnings of the process, which are not printed. */
function captureWarnings(t: Test): () => string[] {
  const captured = t.capture(process, 'emitWarning')
  return () => captured().map(({ args }) => String(args[0]))
}

const asCrLf = (text: string) => text.replaceAll('\n', '\r\n')
const lineEnds: [string, (text: string) => string][] = [
  ['CRLF', asCrLf],
  ['CR', (text) => text.replaceAll('\n', '\r')],
  ['CRLF after a byte order mark', (text) => `\ufeff${asCrLf(text)}`],
  ['a lone CR at the end', (text) => `${text.trimEnd()}\r`],
  ['no line end at the end', (text) => text.trimEnd()],
  ['no empty lines', (text) => text.replaceAll('\n\n', '\n')],
  ['no header', (text) => text.slice(headerBytes)],
]
for (const [name, convert] of lineEnds) {
  t.test(`a segment with ${name} loses no event, and counts each damaged one`, async (t) => {
    const { directory, path, bytes, ends } = leave(t, 250)
    writeFileSync(path, convert(bytes.toString()))
    const warnings = captureWarnings(t)
    const spool = openSpool(directory)
    t.equal(textsOf(spool).join(), ends.map((_, n) => line(n, 'é')).join())
    t.equal(spool.damaged, 0)
    // a settled position of the file as it was does not hide events
    spool.settle(ends[100] as SpoolPosition)
    spool.close()
    const again = openSpool(directory)
    const texts = textsOf(again)
    t.ok(ends.slice(101).every((_, n) => texts.includes(line(n + 101, 'é').toString())))
    again.close()
    t.strictSame(warnings(), [])

    // the last line of such a file looks truncated
    if (name === 'no line end at the end') return
    const damaged = leave(t, 250)
    // like a conversion to another encoding
    writeFileSync(damaged.path, convert(damaged.bytes.toString().replaceAll('é', 'e')))
    const after = openSpool(damaged.directory)
    t.match(after, { left: { events: 0 }, damaged: 250 })
    t.notOk(existsSync(damaged.path))
    t.ok(existsSync(`${damaged.path}.damaged`))
    after.close()
  })
}

t.test('a damaged segment is kept, and its intact events are left', async (t) => {
  const { directory, path, bytes } = leave(t, 3)
  bytes[bytes.indexOf('{"n":1') + 2] = 0xff
  writeFileSync(path, bytes)
  const kept = `${path}.damaged`
  const warnings = captureWarnings(t)
  const warning = `${path} is damaged: 1 event dropped, intact events are sent, the file is kept as ${kept}`
  for (const round of [1, 2]) {
    const spool = openSpool(directory)
    t.strictSame(textsOf(spool), [line(0, 'é').toString(), line(2, 'é').toString()])
    t.equal(spool.damaged, 1)
    t.strictSame(warnings(), [warning], `start ${round}`)
    t.strictSame(readFileSync(kept), bytes)
    if (round === 2) spool.settle(readAll(spool)[1]?.spooledTo as SpoolPosition)
    spool.close()
  }
  t.strictSame(readdirSync(directory).sort(), [`${segmentName(1)}.damaged`, 'settled'])
  rmSync(join(directory, 'settled'))
  const last = openSpool(directory)
  t.match(last, { left: { events: 0 }, damaged: 0 })
  t.match(last.append(line(3)), { segment: 2 }, 'its number is not reused')
  last.close()
  t.strictSame(readFileSync(kept), bytes)
  t.strictSame(warnings(), [])
})

t.test('a foreign file in place of a segment is kept, and counts as damaged', async (t) => {
  for (const text of ['notes', 'notes of\nan operator\n', Buffer.alloc(1000)]) {
    const directory = t.testdir({ [segmentName(1)]: text })
    const warnings = captureWarnings(t)
    const spool = openSpool(directory)
    const isTruncated = text === 'notes'
    t.equal(spool.damaged, isTruncated ? 0 : 1)
    t.equal(warnings().length, isTruncated ? 0 : 1)
    t.equal(existsSync(join(directory, `${segmentName(1)}.damaged`)), !isTruncated)
    spool.close()
  }
})

t.test('the oldest damaged segments are deleted, with a warning', async (t) => {
  const directory = t.testdir(
    Object.fromEntries(Array.from({ length: damagedSegmentsMax + 2 }, (_, n) => [segmentName(n + 1), `\n\nno ${n}\n`])),
  )
  const warnings = captureWarnings(t)
  const spool = openSpool(directory)
  t.equal(spool.damaged, damagedSegmentsMax + 2)
  spool.close()
  t.strictSame(
    warnings().slice(-2),
    [1, 2].map(
      (n) =>
        `${join(directory, segmentName(n))}.damaged is deleted: at most ${damagedSegmentsMax} damaged files are kept`,
    ),
  )
  t.equal(readdirSync(directory).length, damagedSegmentsMax)
})

const link = (path: string) => symlinkSync('nowhere', path)
const foreign: [name: string, path: string, put: (path: string) => void][] = [
  ['a directory in place of a segment', segmentName(9), mkdirSync],
  ['a dangling link in place of a segment', segmentName(9), link],
  ['a directory in place of settled', 'settled', mkdirSync],
  ['a directory in place of the lock', 'lock', mkdirSync],
  ['a dangling link in place of the lock', 'lock', link],
]
t.test('a foreign file is named, with what to do, and the spool is unlocked', async (t) => {
  for (const [name, path, put] of foreign) {
    const directory = t.testdir()
    const expected = { name: 'IngestError', code: 'invalid-argument' }
    put(join(directory, path))
    const message = new RegExp(`${join(directory, path)}.*\\. Move it away, or name another directory\\.$`)
    t.throws(() => openSpool(directory), { ...expected, message }, name)
    rmSync(join(directory, path), { recursive: true })
    openSpool(directory).close()
    t.strictSame(readdirSync(directory), [])
  }
  const file = join(t.testdir({ file: '' }), 'file')
  t.throws(() => openSpool(file), { code: 'invalid-argument', message: file }, 'in place of the directory')
})

t.test('a settled position that is missing, truncated, damaged or of another spool is ignored', async (t) => {
  const other = openAt(t, t.testdir({ other: {} }))
  const otherEnd = [1, 2, 3].map((n) => other.spool.append(line(n)) as SpoolPosition)
  other.spool.settle(otherEnd[1] as SpoolPosition)
  const foreign = readFileSync(join(other.directory, 'settled'))
  other.spool.close()

  const settleFirst = (name: string) => {
    const { directory, spool } = openAt(t, join(other.directory, name))
    const ends = [1, 2, 3].map((n) => spool.append(line(n)) as SpoolPosition)
    spool.settle(ends[0] as SpoolPosition)
    crash(directory)
    return { directory, path: join(directory, 'settled') }
  }
  const whole = settleFirst('whole')
  const own = readFileSync(whole.path)
  const spool = openSpool(whole.directory)
  t.equal(spool.left.events, 2)
  spool.close()
  const texts = [undefined, '', '1', '\0'.repeat(91), '1 99999\n', '9 5\n', foreign, own, own.subarray(0, 50)]
  texts.push(Buffer.concat([own.subarray(0, 29), Buffer.from(own).fill('9', 29)]))
  for (const [i, text] of texts.entries()) {
    const { directory, path } = settleFirst(`spool-${i}`)
    if (text === undefined) rmSync(path)
    else writeFileSync(path, text)
    const again = openSpool(directory)
    t.equal(again.left.events, 3, String(text))
    again.append(line(4))
    crash(directory)
    const last = openSpool(directory)
    t.strictSame(
      textsOf(last),
      [1, 2, 3, 4].map((n) => line(n).toString()),
    )
    for (const { spooledTo } of readAll(last)) last.settle(spooledTo)
    last.close()
    t.strictSame(segmentsIn(directory), [])
  }
})

t.test('a settled position that is ahead of the data deletes nothing', async (t) => {
  const { directory, spool } = openAt(t)
  const big = line(1, 'x'.repeat(segmentBytesMax / 5))
  for (let n = 0; n < 11; n++) spool.append(big)
  spool.settle({ segment: 3, offset: 10 })
  // like a power loss that lost the newest files but not the position
  writeFileSync(join(directory, segmentName(1)), readFileSync(join(directory, segmentName(3))))
  rmSync(join(directory, segmentName(3)))
  crash(directory)
  const again = openSpool(directory)
  t.strictSame(textsOf(again), [String(big)])
  const end = again.append(line(2)) as SpoolPosition
  t.ok(end.segment > 3, 'segment numbers are not reused')
  again.close()
})

t.test('a settled position beyond a truncated segment is ignored', async (t) => {
  const { directory, spool } = openAt(t)
  const [first, second] = [0, 1].map((n) => spool.append(line(n)))
  spool.settle(second as SpoolPosition)
  crash(directory)
  truncateSync(join(directory, segmentName(1)), first?.offset)
  const again = openSpool(directory)
  t.strictSame(textsOf(again), [line(0).toString()], 'events are sent twice rather than lost')
  again.close()
})

t.test('segments of another project throw; an empty spool is usable by any project', async (t) => {
  const { directory, path, bytes } = leave(t, 1)
  t.throws(() => openSpool(directory, 'game-2'), { code: 'invalid-argument', message: /game-1/ })
  t.strictSame(readFileSync(path), bytes)
  const spool = openSpool(directory)
  spool.settle(readAll(spool)[0]?.spooledTo as SpoolPosition)
  spool.close()
  openSpool(directory, 'game-2').close()
})

t.test('an event that is larger than a batch is listed apart, and its segment is deleted', async (t) => {
  const { directory, spool } = openAt(t)
  const events = [line(1, 'x'.repeat(eventBytesMax)), line(2), line(3, 'x'.repeat(eventBytesMax))]
  for (const event of events) spool.append(event)
  spool.close()
  const again = openSpool(directory)
  t.strictSame(textsOf(again), [String(events[1])])
  t.strictSame(
    again.tooLarge.map(({ bytes }) => bytes.length),
    [events[0], events[2]].map((event) => event?.length),
  )
  again.settle(readAll(again)[0]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [])
  again.close()
})

t.test('append returns undefined for an event that cannot be written', async (t) => {
  const warnings = captureWarnings(t)
  const { directory, spool } = openAt(t)
  // a directory in place of the first segment
  mkdirSync(join(directory, segmentName(1)))
  t.equal(spool.append(line(1)), undefined)
  t.strictSame(spool.append(line(2)), { segment: 2, offset: headerBytes + aroundBytes + line(2).length })
  mkdirSync(join(directory, 'settled'))
  spool.settle({ segment: 2, offset: 5 })
  t.match(warnings(), [/cannot be written/, /cannot be written/])
  rmSync(join(directory, segmentName(1)), { recursive: true })
  rmSync(join(directory, 'settled'), { recursive: true })
  spool.close()
})

t.test(
  'only the owner can read the files of a spool',
  { skip: process.platform === 'win32' && 'no modes there' },
  async (t) => {
    const { directory, spool } = openAt(t)
    spool.settle(spool.append(line(1)) as SpoolPosition)
    for (const name of readdirSync(directory)) t.equal(statSync(join(directory, name)).mode & 0o077, 0, name)
    t.equal(statSync(directory).mode & 0o077, 0)
    spool.close()
  },
)

t.test('operators can read the events of a spool', async (t) => {
  const { directory, spool } = openAt(t)
  spool.append(line(1))
  spool.append(line(2))
  const lines = readFileSync(join(directory, segmentName(1)), 'utf8')
    .split('\n')
    .map((each) => each.slice(9))
    .filter((each) => each.startsWith('{'))
  t.strictSame(lines, [line(1).toString(), line(2).toString()])
  spool.close()
})

t.test('a directory is locked by a spool', async (t) => {
  const { directory, spool } = openAt(t)
  t.throws(() => openSpool(directory), { code: 'invalid-argument', message: `process ${process.pid}` })
  spool.close()
  t.notOk(existsSync(join(directory, 'lock')))
})
