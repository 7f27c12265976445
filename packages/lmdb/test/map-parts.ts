import assert from 'node:assert/strict'
import { join } from 'node:path'
import { declaredBytes, digestOf, type Manifest } from '@ingest/core'
import { openChunkBlobs } from '../src/chunks/chunk-blobs.ts'
import { decodeChunks, decodeStored } from '../src/chunks/chunk-encoding.ts'
import { openProjects } from '../src/entries/projects.ts'
import { type Environment, openEnvironment } from '../src/environment/environment.ts'
import type { TableName } from '../src/environment/schema.ts'
import { fingerprintBits } from '../src/ids/fingerprint.ts'
import { decodePending } from '../src/maps/map-encoding.ts'
import { openMapTables } from '../src/maps/map-tables.ts'
import { createCommitState } from '../src/threads/commit-state.ts'
import { startWriter } from '../src/writer/writer-client.ts'

/** The manifest of a map with one chunk for each text. */
export function manifestOf(texts: readonly string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOf(Buffer.from(text)), size: Buffer.byteLength(text) }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

/** The parts of a store that hold maps, without the rest of it. */
export async function openMapParts(directory: string) {
  const environment = await openEnvironment(join(directory, 'events'))
  const fatal: string[] = []
  const guards = new Int32Array(new SharedArrayBuffer(12))
  const writer = await startWriter({
    environment,
    data: {
      directory: join(directory, 'events'),
      fileIds: environment.fileIds,
      idsDirectory: join(directory, 'ids'),
      seed: '0102030405060708',
      entriesPerFlush: 1000,
      fingerprintBits,
      guards,
      commitState: createCommitState(),
    },
    onFatal: ({ code }) => fatal.push(code),
    onProgress: () => {},
    onGarbage: () => void blobs.collectGarbage(),
    onCommit: () => {},
    timeoutMs: 30_000,
  })
  const maps = openMapTables(environment.table)
  function readSnapshot<T>(read: () => T): T {
    environment.root.resetReadTxn()
    return read()
  }
  const chunkEnvironment = await openEnvironment(join(directory, 'chunks'))
  const blobs = openChunkBlobs({
    environment: chunkEnvironment,
    blobs: chunkEnvironment.table('bytes'),
    directory: join(directory, 'chunks'),
    tables: maps.chunks,
    writer,
    readSnapshot,
    guards,
    timeoutMs: 30_000,
  })
  return {
    environment,
    projects: openProjects(environment.table),
    writer,
    maps,
    blobs,
    readSnapshot,
    fatal,
    async close() {
      await Promise.all([blobs.close(), writer.close()])
      await chunkEnvironment.close()
      await environment.close()
    },
  }
}

const rowsOf = (environment: Environment, name: TableName) =>
  Array.from(environment.table(name).getRange({}), ({ key, value }) => ({
    key: Buffer.from(key),
    value: Buffer.from(value),
  }))
const keysOf = (environment: Environment, name: TableName) =>
  rowsOf(environment, name).map(({ key }) => key.toString('hex'))

/** Reads every row of a closed store, and asserts that they agree. Returns the numbers of unused blobs. */
export async function inspectMaps(directory: string): Promise<{ orphans: number; garbage: number }> {
  const environment = await openEnvironment(join(directory, 'events'))
  const bytesEnvironment = await openEnvironment(join(directory, 'chunks'))
  try {
    const bytes = new Map(rowsOf(bytesEnvironment, 'bytes').map(({ key, value }) => [key.toString('hex'), value]))
    const manifests = new Map(rowsOf(environment, 'manifests').map(({ key, value }) => [key.toString('hex'), value]))
    const places = new Map(
      rowsOf(environment, 'chunks').map(({ key, value }) => [
        key.toString('hex'),
        `${key.toString('hex')}${decodeStored(value).upload.toString('hex')}`,
      ]),
    )
    const references = new Set<string>()
    const waits = new Set<string>()
    const pendings = new Map<string, { missing: number; bytes: number }>()
    const numbers: string[] = []
    for (const { key, value } of rowsOf(environment, 'maps')) {
      const row = JSON.parse(value.toString()) as Record<string, { number: number; digest: string; size: number }>
      assert.ok(row.complete || row.pending)
      for (const [role, { number, digest, size }] of Object.entries(row)) {
        const name = number.toString(16).padStart(16, '0')
        numbers.push(name)
        const chunks = decodeChunks(manifests.get(name) as Buffer)
        const keys = chunks.map((chunk) => `${key.toString('hex', 0, 4)}${chunk.digest.slice(7)}`)
        for (const each of keys) references.add(`${each}${name}`)
        const missing = new Set(keys.filter((each) => !places.has(each)))
        if (role === 'pending') {
          const bytes = declaredBytes({ contentType: '', size, digest, chunks })
          pendings.set(`${key.toString('hex', 0, 4)}${name}`, { missing: missing.size, bytes })
          for (const each of missing) waits.add(`${each}${name}`)
          continue
        }
        assert.equal(missing.size, 0, 'a complete map has all of its chunks')
        const whole = keys.map((each) => bytes.get(places.get(each) as string) as Buffer)
        assert.equal(digestOf(...whole), digest)
        assert.equal(Buffer.concat(whole).length, size)
      }
    }
    // these are deleted in steps
    const detached = keysOf(environment, 'detached-manifests').map((key) => key.slice(8))
    const attached = (keys: string[]) => keys.filter((key) => !detached.includes(key.slice(-16))).sort()
    assert.deepEqual([...manifests.keys()].sort(), [...numbers, ...detached].sort(), 'each manifest is that of one map')
    assert.deepEqual(attached(keysOf(environment, 'chunk-references')), [...references].sort())
    assert.deepEqual(attached(keysOf(environment, 'missing-chunks')), [...waits].sort())
    assert.deepEqual(
      rowsOf(environment, 'pending-manifests').map(({ key, value }) => {
        const { missing, bytes } = decodePending(value)
        return [key.toString('hex'), { missing, bytes }]
      }),
      [...pendings].sort(([a], [b]) => (a < b ? -1 : 1)),
    )
    const ready = [...pendings].filter(([, { missing }]) => missing === 0).map(([key]) => key)
    assert.deepEqual(keysOf(environment, 'ready-manifests').sort(), ready.sort())
    const named = new Set(keysOf(environment, 'chunk-references').map((each) => each.slice(0, -16)))
    for (const [key, place] of places) {
      assert.ok(named.has(key), 'a chunk is named')
      assert.equal(digestOf(bytes.get(place) as Buffer), `sha256:${key.slice(8)}`, 'a chunk is what its digest says')
    }
    const garbage = new Set(keysOf(environment, 'chunk-garbage'))
    const kept = new Set(places.values())
    for (const each of garbage) assert.ok(!kept.has(each), 'garbage is not used')
    const orphans = [...bytes.keys()].filter((each) => !kept.has(each) && !garbage.has(each))
    return { orphans: orphans.length, garbage: garbage.size }
  } finally {
    await environment.close()
    await bytesEnvironment.close()
  }
}
