import { createIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { numberOf } from '../../src/projects/project-numbers.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'
import { holdLock } from '../hold-lock.ts'

const held: Record<string, (project: number) => string> = {
  'the head': (project) => `SELECT 1 FROM ingest.heads WHERE project = ${project} FOR UPDATE`,
  'an event id': (project) =>
    `INSERT INTO ingest.event_keys (project, key, batch, idx) VALUES (${project}, '\\x0262', 1, 0)`,
  'a build': (project) => `SELECT 1 FROM ingest.builds WHERE project = ${project} FOR UPDATE`,
}

t.test(
  'a lock that is held makes the append of its project unavailable, and no other',
  { skip: noPostgres },
  async (t) => {
    const url = await createDatabase()
    const ingest = createIngest({ store: await openPostgresStore(url) })
    t.teardown(() => ingest.close())
    const submit = (projectId: string, ids: string[]) =>
      ingest.project(projectId).submitBatch({
        events: ids.map((eventId) => ({ projectId, eventId, buildId: 'build-1', placeId: 'place-1' })),
      })

    // the lock time-out takes 5 s: all at once
    await Promise.all(
      Object.entries(held).map(async ([name, sqlOf], i) => {
        const projectId = `game-${i}`
        const project = numberOf(projectId, 0)
        await submit(projectId, ['a'])
        // a build that is open, so that it must be frozen
        await runSql(url, `UPDATE ingest.builds SET frozen_at = NULL WHERE project = ${project}`)
        const holder = await holdLock(t, url, sqlOf(project))
        const blocked = submit(projectId, ['a', 'b'])
        t.match(await submit(`other-${i}`, ['a', 'b']), { accepted: 2 })
        await t.rejects(blocked, { code: 'store-unavailable', retryAfterSeconds: 1 }, name)
        await holder.release()
        t.match(await submit(projectId, ['a', 'b']), { accepted: 1, duplicates: 1 }, name)
      }),
    )
  },
)
