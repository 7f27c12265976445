import { execFileSync } from 'node:child_process'
import { createHash, randomFillSync } from 'node:crypto'
import { readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { type ChunkLocation, describeSource, readChunk } from '../../src/upload/describe-source.ts'
import { type OpenedSource, openSource } from '../../src/upload/map-source.ts'

const content = Buffer.from('0123456789'.repeat(50_000))

async function readAll({ readAt }: OpenedSource, readBytes = 70_000): Promise<Buffer> {
  const parts = []
  const target = new Uint8Array(readBytes)
  for (let position = 0; ; ) {
    const count = await readAt(target, position)
    if (count === 0) return Buffer.concat(parts)
    parts.push(Buffer.from(target.subarray(0, count)))
    position += count
  }
}

/** A directory for temporary files of this test. */
function useTemporary(t: Test): string {
  const directory = t.testdir()
  const { TMPDIR } = process.env
  process.env.TMPDIR = directory
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  })
  return directory
}

t.test('a file, bytes and a stream can be read repeatedly', async (t) => {
  const path = join(useTemporary(t), 'map.json')
  writeFileSync(path, content)
  const stream = () => Readable.from([content.subarray(0, 7), content.subarray(7, 400_000), content.subarray(400_000)])
  for (const source of [path, content, new Uint8Array(content), stream(), Readable.toWeb(stream())]) {
    const opened = await openSource(source as string)
    t.equal(opened.size, content.length)
    for (let i = 0; i < 2; i++) t.ok((await readAll(opened)).equals(content))
    await opened.close()
  }
})

t.test('a stream is spooled to a private file, which close removes', async (t) => {
  const directory = useTemporary(t)
  const calls: number[] = []
  const opened = await openSource(Readable.from([Buffer.from('abc'), Buffer.from('de')]), {
    onSpooled: (bytes) => calls.push(bytes),
  })
  t.strictSame(calls, [3, 5])
  t.equal(readdirSync(directory).length, 1)
  const [name = ''] = readdirSync(directory)
  if (process.platform !== 'win32') {
    t.match(execFileSync('ls', ['-l', join(directory, name)], { encoding: 'utf8' }), /^-rw------- /m)
  }
  await opened.close()
  t.strictSame(readdirSync(directory), [])
})

t.test('a failed stream leaves no file', async (t) => {
  const directory = useTemporary(t)
  const failing = async function* () {
    yield content
    throw new Error('broken')
  }
  await t.rejects(openSource(failing()), { message: 'broken' })
  await t.rejects(openSource(Readable.from(['text'])), { code: 'invalid-argument' })
  const controller = new AbortController()
  const reason = new Error('aborted by the test')
  const endless = async function* () {
    for (;;) yield content
  }
  const opening = openSource(endless(), { signal: controller.signal, onSpooled: () => controller.abort(reason) })
  await t.rejects(opening, reason)
  t.strictSame(readdirSync(directory), [])
})

t.test('a path of a named pipe is spooled', { skip: process.platform === 'win32' && 'no mkfifo here' }, async (t) => {
  const path = join(useTemporary(t), 'pipe')
  execFileSync('mkfifo', [path])
  const written = appendFile(path, content)
  const opened = await openSource(path)
  await written
  t.ok((await readAll(opened)).equals(content))
  await opened.close()
})

t.test('a source that cannot be read throws', async (t) => {
  const directory = t.testdir()
  await t.rejects(openSource(directory), { code: 'invalid-argument', message: /directory/ })
  await t.rejects(openSource(join(directory, 'missing')), { code: 'invalid-argument', message: /ENOENT/ })
})

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const mebibyte = 1024 * 1024

t.test('describeSource returns the manifest and the first location of each chunk', async (t) => {
  // identical bytes make identical chunks, except for the last one
  const content = Buffer.alloc(2 * mebibyte + 100, 7)
  const source = await openSource(content)
  const calls: number[][] = []
  const { manifest, locations } = await describeSource(source, 'text/plain', (...done) => calls.push(done))
  t.match(manifest, { contentType: 'text/plain', size: content.length, digest: digestOf(content) })
  const [first, ...others] = manifest.chunks
  t.ok(others.length > 1)
  t.strictSame(locations.get(first?.digest ?? ''), { ...first, start: 0 })
  t.equal(locations.size, 2)
  t.equal(calls.length, manifest.chunks.length)
  t.strictSame(calls.at(-1), [content.length, manifest.chunks.length])
  for (const location of locations.values()) {
    const bytes = await readChunk(source, location)
    t.ok(Buffer.from(bytes).equals(content.subarray(location.start, location.start + location.size)))
    t.equal(digestOf(bytes), location.digest)
  }
})

t.test('an empty source has a manifest without chunks', async (t) => {
  const source = await openSource(Buffer.alloc(0))
  const { manifest } = await describeSource(source, 'text/plain', () => {})
  t.match(manifest, { size: 0, digest: digestOf(Buffer.alloc(0)), chunks: [] })
})

t.test('a file and the same bytes in memory have the same manifest and chunks', async (t) => {
  const content = randomFillSync(Buffer.alloc(3 * mebibyte + 7))
  const path = join(t.testdir(), 'map')
  writeFileSync(path, content)
  const [inMemory, inFile] = await Promise.all([openSource(content), openSource(path)])
  const described = await describeSource(inMemory, 'text/plain', () => {})
  t.strictSame(await describeSource(inFile, 'text/plain', () => {}), described)
  for (const location of described.locations.values()) {
    t.ok(Buffer.compare(await readChunk(inMemory, location), await readChunk(inFile, location)) === 0)
  }
  await inFile.close()
})

t.test('a truncated source is source-changed', async (t) => {
  const path = join(t.testdir(), 'map')
  writeFileSync(path, 'abc')
  const source = await openSource(path)
  const { locations } = await describeSource(source, 'text/plain', () => {})
  truncateSync(path, 2)
  await t.rejects(readChunk(source, [...locations.values()][0] as ChunkLocation), { code: 'source-changed' })
  await source.close()
})
