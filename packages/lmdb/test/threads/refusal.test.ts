import { constants } from 'node:os'
import { IngestError } from '@ingest/core'
import t from 'tap'
import { deserializeError, serializeError } from '../../src/threads/error-transfer.ts'

const failed = (code: number) => Object.assign(new Error('it said no'), { code })
const { EIO, ENOSPC, EDQUOT, EFBIG, ENOMEM } = constants.errno
const mapFull = -30792

t.test('a refusal goes from one thread to another and is the same', async (t) => {
  const details = { limit: 1, actual: 2, retryAfterSeconds: 3 }
  for (const error of [new IngestError('overloaded', 'Wait.', details), new IngestError('store-failed', 'No.')]) {
    const { name, code, message, limit, actual, retryAfterSeconds } = deserializeError(
      structuredClone(serializeError(error)),
    )
    t.strictSame(
      { name, code, message, limit, actual, retryAfterSeconds },
      {
        name: 'IngestError',
        code: error.code,
        message: error.message,
        limit: error.limit,
        actual: error.actual,
        retryAfterSeconds: error.retryAfterSeconds,
      },
    )
  }
})

t.test('a full disk is one that may have room again', async (t) => {
  for (const code of [ENOSPC, EDQUOT, EFBIG, mapFull]) {
    t.match(serializeError(failed(code)), {
      code: 'disk-full',
      message: 'it said no',
      details: { retryAfterSeconds: 5 },
    })
  }
})

t.test('an error of the disk is one of a full disk if that is full', async (t) => {
  t.match(
    serializeError(failed(EIO), () => true),
    { code: 'disk-full' },
  )
  t.match(
    serializeError(failed(EIO), () => false),
    { code: 'store-failed', message: 'it said no' },
  )
  t.match(serializeError(failed(EIO)), { code: 'store-failed' })
  t.match(
    serializeError(failed(ENOMEM), () => true),
    { code: 'store-failed' },
  )
})

t.test('whatever else is thrown means that the store has failed', async (t) => {
  t.match(serializeError(new RangeError('too far')), { code: 'store-failed', message: 'too far' })
  t.match(serializeError('a text'), { code: 'store-failed', message: 'a text' })
  t.match(serializeError(undefined), { code: 'store-failed' })
  t.match(serializeError(null), { code: 'store-failed' })
})
