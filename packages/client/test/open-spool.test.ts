import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openSpool, type Spool, type SpoolPosition, segmentBytesMax } from '../src/open-spool.ts'

const textsOf = (spool: Spool) => spool.left.map(({ bytes }) => bytes.toString())
const line = (n: number, more = '') => Buffer.from(`{"n":${n},"more":"${more}"}`)
const segmentsIn = (directory: string) => readdirSync(directory).filter((name) => name.endsWith('.ndjson'))
const segmentName = (n: number) => `${String(n).padStart(16, '0')}.ndjson`

/** What a spool leaves behind whose process has been killed. */
function crash(directory: string): void {
  rmSync(join(directory, 'lock'))
}

function openAt(t: Test, directory = join(t.testdir(), 'made', 'spool')) {
  return { directory, spool: openSpool(directory) }
}

t.test('what was not settled is there after a crash, in its order', async (t) => {
  const { directory, spool } = openAt(t)
  t.strictSame(spool.left, [])
  const ends = [0, 1, 2].map((n) => spool.append(line(n)))
  spool.settle(ends[0] as SpoolPosition)
  crash(directory)
  const again = openSpool(directory)
  t.strictSame(
    textsOf(again),
    [1, 2].map(String).map((n) => line(Number(n)).toString()),
  )
  const third = again.append(line(3))
  t.strictSame(third, { segment: 2, offset: line(3).length + 1 })
  again.settle(again.left[1]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [segmentName(2)])
  again.close()
  const last = openSpool(directory)
  t.strictSame(textsOf(last), [line(3).toString()])
  last.settle(last.left[0]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [])
  last.close()
  t.strictSame(readdirSync(directory), ['settled'])
})

t.test('a spool that was emptied does not skip what comes later', async (t) => {
  const { directory, spool } = openAt(t)
  const end = spool.append(line(1, 'x'.repeat(100)))
  spool.settle(end as SpoolPosition)
  spool.close()
  t.strictSame(segmentsIn(directory), [])
  const again = openSpool(directory)
  again.append(line(2))
  crash(directory)
  const last = openSpool(directory)
  t.strictSame(textsOf(last), [line(2).toString()])
  last.close()
})

t.test('a segment is left at 1 MiB, and deleted once it is settled', async (t) => {
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
  t.strictSame(segmentsIn(directory), [segmentName(3)], 'it is still written to')
  spool.close()
  t.strictSame(segmentsIn(directory), [])
})

t.test('a last line that was cut, anywhere, never was', async (t) => {
  const directory = t.testdir()
  const whole = Buffer.concat([line(1), Buffer.from('\n'), line(2, 'é'), Buffer.from('\n')])
  for (let length = 0; length <= whole.length; length++) {
    writeFileSync(join(directory, segmentName(1)), whole.subarray(0, length))
    const spool = openSpool(directory)
    const lines = whole.subarray(0, length).toString().split('\n').slice(0, -1)
    t.strictSame(textsOf(spool), lines)
    t.equal(spool.damaged, 0)
    spool.append(line(3))
    crash(directory)
    const again = openSpool(directory)
    t.strictSame(textsOf(again), [...lines, line(3).toString()])
    again.close()
    rmSync(directory, { recursive: true })
    mkdirSync(directory)
  }
})

t.test('lines that are no objects are left out and counted, and do not keep their segment', async (t) => {
  const directory = t.testdir({
    [segmentName(1)]: Buffer.concat([Buffer.alloc(20), Buffer.from('\n{"a":1}\n{"a"\n[]\nnull\n')]),
    [segmentName(2)]: '\n',
    'notes.txt': 'not ours',
  })
  const spool = openSpool(directory)
  t.strictSame(textsOf(spool), ['{"a":1}'])
  t.equal(spool.damaged, 5)
  spool.settle(spool.left[0]?.spooledTo as SpoolPosition)
  t.strictSame(segmentsIn(directory), [])
  spool.close()
  t.ok(existsSync(join(directory, 'notes.txt')))
})

t.test('a file of positions that is lost, cut or of the future loses no event', async (t) => {
  for (const text of [undefined, '', '1', '\0'.repeat(40), '1 99999\n', '9 5\n']) {
    const { directory, spool } = openAt(t, t.testdir())
    const end = spool.append(line(1)) as SpoolPosition
    spool.append(line(2))
    spool.settle(end)
    crash(directory)
    const path = join(directory, 'settled')
    if (text === undefined) rmSync(path)
    else writeFileSync(path, text)
    const again = openSpool(directory)
    // what is before a position is settled, whoever wrote it
    t.equal(again.left.length, text?.endsWith('\n') ? 0 : 2)
    again.append(line(3))
    crash(directory)
    const last = openSpool(directory)
    t.equal(textsOf(last).at(-1), line(3).toString())
    last.close()
  }
})

t.test('an event that cannot be written is not said to be', async (t) => {
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => warnings.push(message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const { directory, spool } = openAt(t)
  // a directory stands where the first segment would
  mkdirSync(join(directory, segmentName(1)))
  t.equal(spool.append(line(1)), undefined)
  t.strictSame(spool.append(line(2)), { segment: 2, offset: line(2).length + 1 })
  mkdirSync(join(directory, 'settled'))
  spool.settle({ segment: 2, offset: 5 })
  await new Promise(setImmediate)
  t.match(warnings, [/cannot be written/, /cannot be written/])
  rmSync(join(directory, segmentName(1)), { recursive: true })
  rmSync(join(directory, 'settled'), { recursive: true })
  spool.close()
})

t.test('nobody else can read what is in it', { skip: process.platform === 'win32' && 'no modes there' }, async (t) => {
  const { directory, spool } = openAt(t)
  spool.settle(spool.append(line(1)) as SpoolPosition)
  for (const name of readdirSync(directory)) t.equal(statSync(join(directory, name)).mode & 0o077, 0, name)
  t.equal(statSync(directory).mode & 0o077, 0)
  spool.close()
})

t.test('a spool is of one sender, and a failed opening holds nothing', async (t) => {
  const { directory, spool } = openAt(t)
  t.throws(() => openSpool(directory), { code: 'invalid-argument' })
  spool.close()
  mkdirSync(join(directory, segmentName(9)))
  t.throws(() => openSpool(directory), { code: 'EISDIR' })
  rmSync(join(directory, segmentName(9)), { recursive: true })
  openSpool(directory).close()
})

t.test('files stay readable by hand', async (t) => {
  const { directory, spool } = openAt(t)
  spool.append(line(1))
  spool.append(line(2))
  t.equal(readFileSync(join(directory, segmentName(1)), 'utf8'), `${line(1)}\n${line(2)}\n`)
  spool.close()
})
