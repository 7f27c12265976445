import { answerCalls } from '@ingest/bench/answer-calls'
import { ownBytes } from '@ingest/bench/process-memory'
import { ClassicLevel } from 'classic-level'
import { createGroups } from './ids-groups.js'

// LevelDB for both: the log of batches and fingerprint → position, in the same synced batches. Its Bloom filters are
// on by default; the caches are larger than that, and nothing is compressed, as random bytes cannot be.
/** @type {ClassicLevel<Buffer, Buffer>} */
let level
/** @type {ReturnType<typeof createGroups>} */
let nextGroup
const idPrefix = Buffer.from('i')

answerCalls({
  async start({ directory, projectId }) {
    nextGroup = createGroups(projectId)
    level = new ClassicLevel(directory, {
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
      compression: false,
      cacheSize: 256 * 2 ** 20,
      writeBufferSize: 64 * 2 ** 20,
    })
    await level.open()
  },

  async append({ events }) {
    for (let done = 0; done < events; ) {
      const { bodies, entries } = nextGroup()
      done += entries.length
      const keys = entries.map(({ key }) => Buffer.concat([idPrefix, key]))
      const known = await level.hasMany(keys)
      if (known.includes(true)) throw new Error('a new id was taken for a duplicate')
      await level.batch(
        [
          ...entries.map(({ position }, i) => ({ type: 'put', key: keys[i], value: position })),
          ...bodies.map(({ sequence, body }) => ({
            type: 'put',
            key: Buffer.from(`l${String(sequence).padStart(12, '0')}`),
            value: body,
          })),
        ],
        { sync: true },
      )
    }
    return events
  },

  memory() {
    globalThis.gc?.()
    return ownBytes('self')
  },
  stop: () => level?.close(),
})
