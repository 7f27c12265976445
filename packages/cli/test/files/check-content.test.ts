import { join } from 'node:path'
import type { MapContent } from '@ingest/core'
import t from 'tap'
import { checkContent, checkFile } from '../../src/files/check-content.ts'
import { digestOf } from '../map-parts.ts'

const bytes = Buffer.from('a map of several parts')
const never = new AbortController().signal

/** A map whose content is `read`. */
function contentOf(read: Buffer): MapContent {
  return {
    placeId: '1',
    buildId: 'b',
    digest: digestOf(bytes),
    size: bytes.length,
    contentType: 'text/plain',
    frozen: false,
    async *bytes() {
      for (let at = 0; at < read.length; at += 8) yield read.subarray(at, at + 8)
    },
  }
}

t.test('the bytes of a map are written in order and verified', async (t) => {
  const written: Uint8Array[] = []
  await checkContent(contentOf(bytes), never, async (piece) => written.push(piece) > 0)
  t.ok(Buffer.concat(written).equals(bytes))
})

t.test('different, missing or extra bytes are refused', async (t) => {
  const others = [
    Buffer.from('b map of several parts'),
    bytes.subarray(1),
    Buffer.concat([bytes, bytes]),
    Buffer.alloc(0),
  ]
  for (const other of others) {
    await t.rejects(checkContent(contentOf(other), never), {
      code: 'digest-mismatch',
      message: /^The content does not match/,
    })
  }
})

t.test('a reader that stops early gets no error', async (t) => {
  let count = 0
  await checkContent(contentOf(bytes), never, async () => ++count < 2)
  t.equal(count, 2)
})

t.test('a file is compared', async (t) => {
  const directory = t.testdir({ same: bytes, other: 'something else' })
  await checkFile(contentOf(bytes), join(directory, 'same'), never)
  await t.rejects(checkFile(contentOf(bytes), join(directory, 'other'), never), { code: 'digest-mismatch' })
  await t.rejects(checkFile(contentOf(bytes), join(directory, 'none'), never), { code: 'invalid-argument' })
})

t.test('a signal aborts it', async (t) => {
  const reason = new Error('no longer wanted')
  await t.rejects(checkContent(contentOf(bytes), AbortSignal.abort(reason)), reason)
})
