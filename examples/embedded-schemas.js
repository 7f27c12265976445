// @ts-check
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { Type } from 'typebox'
import { inDirectory } from './check.js'

/** @param {string} directory */
async function open(directory) {
  return createIngest({
    store: await openLmdbStore(directory),
    schemas: {
      // in addition to the rules of Ingest
      'player.level_up': Type.Object({
        playerId: Type.String(),
        level: Type.Integer({ minimum: 1, maximum: 100 }),
      }),
    },
  })
}

await inDirectory(async (directory) => {
  const ingest = await open(directory)
  const events = [2, 0].map((level) => ({
    projectId: 'demo',
    eventId: randomUUID(),
    type: /** @type {const} */ ('player.level_up'),
    playerId: 'p1',
    level,
  }))

  const { accepted, rejected } = await ingest.project('demo').submitBatch({ events })
  assert.equal(accepted, 1)
  assert.deepEqual(
    rejected.map(({ index, issues }) => ({ index, path: issues[0]?.path, code: issues[0]?.code })),
    [{ index: 1, path: '/level', code: 'out_of_range' }],
  )
  await ingest.close()
  return `an event was rejected: ${rejected[0]?.issues[0]?.path} ${rejected[0]?.issues[0]?.message}`
})
