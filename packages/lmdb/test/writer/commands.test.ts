import { type Digest, digestOf } from '@ingest/core'
import t, { type Test } from 'tap'
import { encodeChunks, encodeDigests } from '../../src/chunks/chunk-encoding.ts'
import { chunkKey } from '../../src/chunks/chunk-tables.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import type { PutMap } from '../../src/maps/map-commands.ts'
import { versionOfNone } from '../../src/maps/map-reader.ts'
import { type Command, openCommandTables, runCommand } from '../../src/writer/commands.ts'
import { manifestOf } from '../map-parts.ts'

const map = { placeId: '1', buildId: 'b' }
const digest = (text: string) => digestOf(Buffer.from(text))

async function open(t: Test) {
  const environment = await openEnvironment(t.testdir())
  const marked: number[] = []
  const tables = openCommandTables(environment.table, () => marked.push(1))
  t.teardown(() => environment.close())
  return {
    ...tables,
    marked,
    run: (command: Command) => environment.write(() => runCommand(tables, command)),
    found() {
      environment.root.resetReadTxn()
      return tables.maps.find(1, map)
    },
  }
}

function encoded(...texts: string[]) {
  const manifest = manifestOf(texts)
  return { ...manifest, chunks: encodeChunks(manifest.chunks) }
}

function chunkOf(text: string, upload = '12345678') {
  return { blobKey: Buffer.concat([chunkKey(1, digest(text)), Buffer.from(upload)]), size: text.length }
}

function putMap(more: Partial<PutMap>): PutMap {
  return {
    type: 'putMap',
    projectId: 'p',
    project: 1,
    map,
    version: versionOfNone,
    digests: Buffer.alloc(0),
    present: Buffer.alloc(0),
    complete: undefined,
    pending: { manifest: encoded('a', 'b'), touchedAt: 1 },
    uploads: new Map(),
    collections: 0,
    ...more,
  }
}

function putChunk(text: string, { collections = 0 } = {}): Command {
  return { type: 'putChunk', project: 1, digest: digest(text), chunk: chunkOf(text), collections, receivedAt: 1 }
}

t.test('a map is written if its slot has not changed', async (t) => {
  const { run, found } = await open(t)
  t.equal(run(putMap({})), 'written')
  t.equal(run(putMap({ pending: undefined })), 'changed')
  const { version } = found()
  t.equal(run(putMap({ version, pending: { manifest: 'pending', touchedAt: 2 } })), 'written')
  t.equal(run(putMap({ version, pending: undefined })), 'changed', 'it was touched')
  const touched = found().version
  run(putChunk('a'))
  t.equal(run(putMap({ version: touched, pending: undefined })), 'changed', 'a chunk was stored')
  t.match(found().contents.pending, { touchedAt: 1, manifest: { chunks: [{ digest: digest('a') }, {}] } })
})

t.test('a map is written if the presence of its chunks has not changed', async (t) => {
  const { run } = await open(t)
  run(putMap({ map: { placeId: '2', buildId: 'b' } }))
  run(putChunk('a'))
  const digests = encodeDigests([digest('a'), digest('b')])
  t.equal(run(putMap({ digests, present: Buffer.of(0, 0) })), 'changed')
  t.equal(run(putMap({ digests, present: Buffer.of(1, 1) })), 'changed')
  t.equal(run(putMap({ digests, present: Buffer.of(1, 0) })), 'written')
})

t.test('a blob that may have been deleted is not referenced', async (t) => {
  const { run, maps, found } = await open(t)
  const uploads = new Map<Digest, ReturnType<typeof chunkOf>>([[digest('a'), chunkOf('a')]])
  run({ type: 'markGarbage', blobKeys: [chunkOf('a').blobKey] })
  t.equal(run(putMap({ uploads })), 'changed', 'it is marked as garbage')
  run({ type: 'collectGarbage', blobKeys: [chunkOf('a').blobKey] })
  t.equal(run(putMap({ uploads })), 'changed', 'it was collected')
  t.equal(run(putMap({ uploads, collections: 1 })), 'written')
  t.equal(maps.chunks.isStored(1, digest('a')), true)
  t.equal(run(putChunk('b')), 'changed')
  t.equal(run(putChunk('b', { collections: 1 })), 'stored')
  t.equal(maps.pending.get(1, found().row.pending?.number as number).missing, 0)
})

t.test('a used blob is not marked as garbage', async (t) => {
  const { run, maps, marked } = await open(t)
  run(putMap({}))
  run(putChunk('a'))
  run({ type: 'markGarbage', blobKeys: [chunkOf('a').blobKey, chunkOf('a', 'orphaned').blobKey] })
  t.strictSame(maps.chunks.garbage(9), [chunkOf('a', 'orphaned').blobKey])
  t.equal(marked.length, 1)
})
