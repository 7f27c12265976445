import assert from 'node:assert/strict'
import type { StoreCommit } from '@ingest/core'
import { batchOf, event } from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

/** What a store reports about itself; both operations are optional. */
export const measureChecks: readonly StoreCheck[] = [
  check('every append is in one reported commit, until the watcher ends', async (store) => {
    await store.append('p', batchOf([event('first')]))
    const commits: StoreCommit[] = []
    const unwatch = store.watchCommits?.((commit) => commits.push(commit))
    if (!unwatch) return
    await Promise.all(range(20).map((i) => store.append('p', batchOf([event(`e-${i}`)]))))
    const sum = commits.reduce((requests, commit) => requests + commit.requests, 0)
    assert.equal(sum, 20)
    for (const { requests, durationMs } of commits) assert.ok(requests > 0 && durationMs > 0, 'it took some time')
    const before = commits.length
    unwatch()
    await store.append('p', batchOf([event('unwatched')]))
    assert.equal(commits.length, before)
  }),

  check(
    'an append gets the commit that made it durable before it resolves, if the store reports commits',
    async (store) => {
      await store.append('p', batchOf([event('first')]))
      const commits: StoreCommit[] = []
      const unwatch = store.watchCommits?.((commit) => commits.push(commit))
      if (!unwatch) return
      const appended = range(20).map(async (i) => {
        let own: StoreCommit | undefined
        const onCommit = (commit: StoreCommit) => {
          own = commit
        }
        await store.append('p', { ...batchOf([event(`e-${i}`)]), onCommit })
        return own
      })
      const own = await Promise.all(appended)
      unwatch()
      for (const commit of own) assert.ok(commit && commits.includes(commit), 'the one that is reported')
      assert.equal(new Set(own).size, commits.length)
    },
  ),

  check('the measurements of a store have Prometheus names and finite values', async (store) => {
    await store.append('p', batchOf([event('a')]))
    const metrics = (await store.measure?.()) ?? []
    assert.equal(new Set(metrics.map(({ name }) => name)).size, metrics.length, 'each name once')
    for (const { name, help, type, values } of metrics) {
      assert.match(name, /^ingest_store(_[a-z]+)+$/)
      assert.equal(type === 'counter', name.endsWith('_total'), name)
      assert.match(help, /^[A-Z][^\n]*\.$/, name)
      const labels = values.map((each) => JSON.stringify(each.labels))
      assert.ok(labels.length > 0 && new Set(labels).size === labels.length, `${name}: ${labels}`)
      for (const { value } of values) assert.ok(Number.isFinite(value) && value >= 0, `${name} is ${value}`)
    }
  }),
]
