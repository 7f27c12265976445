import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createIngest, IngestError, openMemoryStore, type PublishedMap } from '@ingest/core'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { createClientWith } from '../../src/client.ts'
import { openSource } from '../../src/upload/map-source.ts'
import { type MapUploader, runParallel, type UploadProgress, uploadMap } from '../../src/upload/upload-map.ts'

const projectId = 'game-1'
const id = { placeId: '1', buildId: 'b' }
const mebibyte = 1024 * 1024

/** Reproducible bytes. */
function madeUp(size: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(size / 32) }, (_, i) => createHash('sha256').update(`${i}`).digest())
  return Buffer.concat(blocks).subarray(0, size)
}

const content = madeUp(3 * mebibyte)
const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`

/** An embedded Ingest that records the calls of an upload. */
function open(t: Test, around: (call: () => Promise<unknown>, name: string) => Promise<unknown> = (call) => call()) {
  const ingest = createIngest({ store: openMemoryStore() })
  t.teardown(() => ingest.close())
  const calls: string[] = []
  const watch =
    (name: 'publishMap' | 'putChunk') =>
    (...args: unknown[]) => {
      calls.push(name)
      return around(() => (ingest.project(projectId)[name] as (...args: unknown[]) => Promise<unknown>)(...args), name)
    }
  const uploader = { publishMap: watch('publishMap'), putChunk: watch('putChunk') } as unknown as MapUploader
  const countOf = (name: string) => calls.filter((each) => each === name).length
  return { ingest, uploader, calls, countOf }
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

async function contentOf(ingest: ReturnType<typeof createIngest>, of = id): Promise<Buffer> {
  const map = await ingest.project(projectId).getMapContent(of)
  const parts = []
  for await (const part of map?.bytes() ?? []) parts.push(part)
  return Buffer.concat(parts)
}

t.test('a map is uploaded from a file, from bytes and from a stream', async (t) => {
  const path = join(t.testdir(), 'map.json')
  writeFileSync(path, content)
  const stream = () =>
    Readable.from(Array.from({ length: 100 }, (_, i) => content.subarray(i * 32_000, (i + 1) * 32_000)))
  for (const source of [path, content, new Uint8Array(content), stream(), Readable.toWeb(stream())]) {
    const { ingest, uploader, calls } = open(t)
    const result = await uploadMap(uploader, { ...id, source: source as string, contentType: 'text/plain' })
    t.match(result, {
      ...id,
      outcome: 'created',
      state: 'complete',
      digest,
      size: content.length,
      contentType: 'text/plain',
      missing: { length: 0 },
      uploadedChunks: result.chunks,
      uploadedBytes: content.length,
      reusedChunks: 0,
    })
    t.ok(result.chunks > 5)
    t.equal(calls.length, 1 + result.chunks, 'one publication, each chunk once')
    t.ok((await contentOf(ingest)).equals(content))
  }
})

t.test('the same map uploads no chunk, whatever its source is', async (t) => {
  const { uploader, countOf } = open(t)
  const path = join(t.testdir(), 'map')
  writeFileSync(path, content)
  const first = await uploadMap(uploader, { ...id, source: content })
  const again = await uploadMap(uploader, { ...id, source: path })
  t.match(again, { outcome: 'unchanged', uploadedChunks: 0, uploadedBytes: 0, reusedChunks: first.chunks })
  t.equal(countOf('putChunk'), first.chunks)
})

t.test('a small change uploads few chunks', async (t) => {
  const { ingest, uploader } = open(t)
  const first = await uploadMap(uploader, { ...id, source: content })
  const changed = Buffer.concat([content.subarray(0, mebibyte), Buffer.from('new'), content.subarray(mebibyte)])
  const build = { placeId: '1', buildId: 'c' }
  const second = await uploadMap(uploader, { ...build, source: changed })
  t.ok(second.uploadedChunks <= 2, String(second.uploadedChunks))
  t.equal(second.uploadedChunks + second.reusedChunks, second.chunks)
  t.ok(second.uploadedBytes < first.uploadedBytes / 2)
  t.ok((await contentOf(ingest, build)).equals(changed))
})

t.test('a repeated chunk is uploaded once', async (t) => {
  const { ingest, uploader } = open(t)
  const source = Buffer.alloc(4 * mebibyte + 1, 'x')
  const result = await uploadMap(uploader, { placeId: 920587237, buildId: 'b', source })
  t.match(result, { placeId: '920587237', uploadedChunks: 2, reusedChunks: 0 })
  t.ok(result.chunks > 2)
  t.ok((await contentOf(ingest, { placeId: '920587237', buildId: 'b' })).equals(source))
})

t.test('at most `concurrency` chunks are in flight', async (t) => {
  for (const [concurrency, expected] of [
    [1, 1],
    [3, 3],
    [undefined, 8],
  ] as const) {
    let running = 0
    let most = 0
    const { uploader } = open(t, async (call, name) => {
      if (name === 'putChunk') most = Math.max(most, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      const result = await call()
      if (name === 'putChunk') running--
      return result
    })
    await uploadMap(uploader, { ...id, source: content }, concurrency === undefined ? {} : { concurrency })
    t.equal(most, expected)
  }
})

t.test('onProgress is called in each phase', async (t) => {
  const { uploader } = open(t)
  const calls: UploadProgress[] = []
  const parts = [content.subarray(0, mebibyte), content.subarray(mebibyte)]
  const { chunks } = await uploadMap(
    uploader,
    { ...id, source: Readable.from(parts) },
    { onProgress: (progress) => calls.push(progress) },
  )
  const last = (phase: string) => calls.filter((each) => each.phase === phase).at(-1)
  const bytesDone = content.length
  t.strictSame(last('spool'), { phase: 'spool', bytesDone, bytesTotal: null, chunksDone: 0, chunksTotal: null })
  t.strictSame(last('hash'), { phase: 'hash', bytesDone, bytesTotal: bytesDone, chunksDone: chunks, chunksTotal: null })
  const sent = { bytesDone, bytesTotal: bytesDone, chunksDone: chunks, chunksTotal: chunks }
  t.strictSame(last('upload'), { phase: 'upload', ...sent })
  t.equal(calls.length, 2 + chunks + 1 + chunks)
})

t.test('dryRun writes nothing', async (t) => {
  const { ingest, uploader, calls } = open(t)
  const result = await uploadMap(uploader, { ...id, source: content }, { dryRun: true })
  t.match(result, { outcome: 'incomplete', state: 'incomplete', uploadedChunks: 0, uploadedBytes: 0 })
  t.equal(result.missing.length, result.chunks)
  t.strictSame(calls, ['publishMap'])
  t.equal(await ingest.project(projectId).getMap(id), undefined)
})

t.test('a precondition that fails because of this very map is met', async (t) => {
  const { uploader } = open(t)
  const publication = { ...id, source: content }
  const { publishedAt } = await uploadMap(uploader, publication, { ifNoneMatch: '*' })
  const conditions = [{ ifNoneMatch: '*' }, { ifMatch: `sha256:${'0'.repeat(64)}` }] as const
  for (const options of [...conditions, { ...conditions[0], dryRun: true }]) {
    t.match(await uploadMap(uploader, publication, options), { outcome: 'unchanged', publishedAt })
  }
  const otherType = { ...publication, contentType: 'text/plain' }
  for (const options of conditions) {
    await t.rejects(uploadMap(uploader, otherType, options), { code: 'precondition-failed' })
  }
})

t.test('an empty map throws without allowEmpty', async (t) => {
  const path = join(t.testdir(), 'empty.json')
  writeFileSync(path, '')
  for (const source of [path, Buffer.alloc(0), Readable.from([])]) {
    const { uploader, calls } = open(t)
    await t.rejects(uploadMap(uploader, { ...id, source }), { code: 'invalid-publication' })
    t.strictSame(calls, [])
  }
  const { uploader } = open(t)
  const empty = await uploadMap(uploader, { ...id, source: path }, { allowEmpty: true })
  t.match(empty, { outcome: 'created', size: 0 })
})

t.test('an upload that another publication replaces throws', async (t) => {
  const { ingest, uploader } = open(t, async (call, name) => {
    if (name === 'putChunk') await ingest.project(projectId).publishMap({ ...id, map: 'of another publisher' })
    return call()
  })
  await t.rejects(uploadMap(uploader, { ...id, source: content }), {
    code: 'chunk-undeclared',
    message: /Another publication/,
  })
})

t.test('the status is requested when no response had it', async (t) => {
  for (const options of [{}, { ifNoneMatch: '*' }] as const) {
    const { uploader, countOf } = open(t, async (call, name) => {
      const result = await call()
      return name === 'putChunk' ? { outcome: 'existing', completed: [] } : result
    })
    const result = await uploadMap(uploader, { ...id, source: content }, options)
    t.match(result, { outcome: 'unchanged', state: 'complete', uploadedChunks: result.chunks })
    t.equal(countOf('putChunk'), result.chunks)
  }
})

t.test('a precondition that fails because of another map throws', async (t) => {
  const { ingest, uploader } = open(t, async (call, name) => {
    if (name === 'publishMap') return call()
    await call().catch(() => {})
    await ingest.project(projectId).publishMap({ ...id, map: 'of another publisher' })
    return { outcome: 'existing', completed: [] }
  })
  const upload = uploadMap(uploader, { ...id, source: Buffer.from('{}') }, { ifNoneMatch: '*' })
  await t.rejects(upload, { code: 'precondition-failed' })
  t.equal((await contentOf(ingest)).toString(), '"of another publisher"')
})

t.test('chunks that are missing again are uploaded again, up to a limit', async (t) => {
  let lost = 0
  const loseOnce = open(t, async (call, name) => {
    if (name === 'putChunk' && lost++ === 2) return { outcome: 'stored', completed: [] }
    return call()
  })
  const result = await uploadMap(loseOnce.uploader, { ...id, source: content })
  t.match(result, { outcome: 'created', uploadedChunks: result.chunks, reusedChunks: 0 })
  t.ok(result.uploadedBytes > content.length)

  const loseAll = open(t, async (call, name) => (name === 'putChunk' ? { outcome: 'stored', completed: [] } : call()))
  await t.rejects(uploadMap(loseAll.uploader, { ...id, source: content }), { code: 'unexpected-response' })
})

t.test('a stream is spooled to a private file, which close removes', async (t) => {
  const directory = useTemporary(t)
  const opened = await openSource(Readable.from([Buffer.from('abc'), Buffer.from('de')]))
  const [name = '', ...others] = readdirSync(directory)
  t.strictSame(others, [])
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
  const { ingest, uploader } = open(t)
  await uploadMap(uploader, { ...id, source: path })
  await written
  t.ok((await contentOf(ingest)).equals(content))
})

t.test('a source that cannot be read throws', async (t) => {
  const directory = t.testdir()
  await t.rejects(openSource(directory), { code: 'invalid-argument', message: /directory/ })
  await t.rejects(openSource(join(directory, 'missing')), { code: 'invalid-argument', message: /ENOENT/ })
})

t.test('a source that changes between its readings is source-changed', async (t) => {
  const path = join(t.testdir(), 'map.json')
  const changes: Record<string, () => void> = {
    'other bytes': () => writeFileSync(path, Buffer.alloc(content.length, 'x')),
    'fewer bytes': () => writeFileSync(path, content.subarray(0, 1000)),
  }
  for (const [name, change] of Object.entries(changes)) {
    writeFileSync(path, content)
    const { ingest, uploader } = open(t, async (call, name) => {
      const result = await call()
      if (name === 'publishMap') change()
      return result
    })
    await t.rejects(uploadMap(uploader, { ...id, source: path }), { code: 'source-changed' }, name)
    t.match(await ingest.project(projectId).getMap(id), { state: 'incomplete' })
  }
  const bytes = Buffer.from(content)
  const { uploader } = open(t, async (call, name) => {
    const result = await call()
    if (name === 'publishMap') bytes[5] = 0
    return result
  })
  await t.rejects(uploadMap(uploader, { ...id, source: bytes }), { code: 'source-changed' })
  t.ok(readFileSync(path).length > 0, 'the file is kept')
})

t.test('an error of a chunk or of the publication ends the upload', async (t) => {
  for (const failing of ['putChunk', 'publishMap']) {
    const { uploader, countOf } = open(t, async (call, name) => {
      if (name === failing) throw new IngestError('map-frozen', 'no')
      return call()
    })
    await t.rejects(uploadMap(uploader, { ...id, source: content }), { code: 'map-frozen' })
    t.ok(countOf('putChunk') <= 8)
  }
})

t.test('a dropped map and a foreign missing chunk throw', async (t) => {
  const issues = [{ code: 'digest_mismatch', path: '/digest', message: 'Another.' }]
  let published: PublishedMap | undefined
  const dropping = open(t, async (call, name) => {
    if (name === 'publishMap') published = (await call()) as PublishedMap
    return name === 'publishMap' ? published : { outcome: 'stored', completed: [{ ...published, issues }] }
  })
  await t.rejects(uploadMap(dropping.uploader, { ...id, source: content }), {
    code: 'digest-mismatch',
    issues,
  })

  const strange = open(t, async (call) => ({ ...((await call()) as PublishedMap), missing: [digest] }))
  await t.rejects(uploadMap(strange.uploader, { ...id, source: content }), { code: 'unexpected-response' })
})

t.test('an invalid concurrency throws', async (t) => {
  for (const concurrency of [0, -1, 1.5, Number.NaN]) {
    const { uploader, calls } = open(t)
    const upload = uploadMap(uploader, { ...id, source: content }, { concurrency })
    await t.rejects(upload, { code: 'invalid-argument' })
    t.strictSame(calls, [])
  }
})

t.test('a map whose verification exceeds the budget is completed after Retry-After', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create(projectId)
  let time = 0
  const rateLimits = { mapBytes: { perSecond: mebibyte, burst: 4 * mebibyte }, now: () => time }
  const server = await serve({ ingest, port: 0, closeTimeoutMs: 1, rateLimits })
  const pauses: number[] = []
  const sleep = async (ms: number) => {
    pauses.push(ms)
    time += ms
  }
  const client = createClientWith({ url: server.url, projectId, key }, { sleep, random: () => 0 })
  t.teardown(() => Promise.all([client.close(), server.close()]))
  const uploaded = await uploadMap(client, { ...id, source: content })
  t.match(uploaded, { outcome: 'created', state: 'complete', uploadedBytes: content.length })
  // 3 MiB were uploaded, and 3 MiB are verified
  t.ok(pauses.length === 1 && (pauses[0] ?? 0) >= 2000, pauses.join())
  t.ok((await contentOf(ingest)).equals(content))
})

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('runParallel throws the first failure when all items in work have ended', async (t) => {
  const begun: number[] = []
  let over = 0
  const run = runParallel([0, 1, 2, 3, 4], 2, async (item, signal) => {
    begun.push(item)
    if (item === 1) throw new Error('first')
    while (!signal.aborted) await turn()
    over++
    throw new Error('second')
  })
  await t.rejects(run, { message: 'first' })
  t.strictSame([begun, over], [[0, 1], 1])
})

t.test('high concurrency does not warn about a listener leak', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  await runParallel(Array(32).keys(), 16, async (_, signal) => {
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve)
      setTimeout(resolve)
    })
  })
  t.strictSame(warnings, [])
})
