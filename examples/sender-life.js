// @ts-check
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient, createSender } from '@ingest/client'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { inDirectory } from './check.js'

/**
 * @param {string} url
 * @param {string} key
 * @param {string} spool
 */
function startGame(url, key, spool) {
  const client = createClient({ url, projectId: 'demo', key })
  const sender = createSender(client, {
    spool,
    onRejected: (rejections) => console.warn('rejected', rejections),
    onDrop: (reason, events) => console.warn(`${events.length} events dropped: ${reason}`),
  })
  return {
    sender,
    async stop() {
      const { queuedEvents } = await sender.close({ deadlineMs: 5000 })
      await client.close()
      return queuedEvents
    },
  }
}

await inDirectory(async (directory) => {
  const spool = join(directory, 'spool')
  await rm(spool, { recursive: true, force: true })
  const ingest = createIngest({ store: await openLmdbStore(join(directory, 'data')) })
  const { key } = await ingest.keys.create('demo')
  let server = await serve({ ingest, port: 0 })
  const { url } = server

  // the game sends events of a round
  let game = startGame(url, key, spool)
  const ids = [game.sender.send({ type: 'round.start', buildId: '2026.11.20' })]
  ids.push(game.sender.send({ type: 'player.join', playerId: 1234567890 }))
  await game.sender.flush()
  assert.equal(game.sender.stats().accepted, 2)

  // the server stops; the game keeps sending, and is stopped before the server is back
  await server.close()
  ids.push(game.sender.send({ type: 'round.end', score: 12 }))
  assert.equal(await game.stop(), 1)

  // the game starts again on the same spool, and sends the left event first
  server = await serve({ ingest, port: Number(new URL(url).port) })
  game = startGame(url, key, spool)
  ids.push(game.sender.send({ type: 'round.start', buildId: '2026.11.21' }))
  assert.equal(await game.stop(), 0)

  const stored = []
  for await (const { bytes } of ingest.project('demo').readEvents()) {
    stored.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  }
  assert.deepEqual(
    stored.filter((id) => ids.includes(id)),
    ids,
  )
  await server.close()
  await ingest.close()
  return 'what was sent while the server was away came with the next start, once and in order'
})
