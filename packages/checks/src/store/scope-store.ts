import type { ChunkRef, MapContents, MapSlot, Project, Store } from '@ingest/core'

let scopeCount = 0
/** Longer than the times of any check. */
const scopeMs = 1e6
/** In 2001: a store may replace times in the future, and 700,000 scopes end before the present. */
const firstScopeMs = 1e12

/** Projects and times of one check. */
export interface CheckScope {
  prefix: string
  offsetMs: number
}

export function createScope(): CheckScope {
  scopeCount++
  return { prefix: `scope-${scopeCount}-`, offsetMs: firstScopeMs + scopeCount * scopeMs }
}

/**
 * A view of a store with projects and times of its own, so that checks can share a store: project ids get a prefix, and
 * times an offset, because the times of a log never decrease.
 */
export function scopeStore(store: Store, { prefix, offsetMs }: CheckScope): Store {
  const { hashChunks, watchCommits, measure } = store
  const scopedId = (projectId: string) => `${prefix}${projectId}`
  const stored = (ms: number) => ms + offsetMs
  const shown = (ms: number) => ms - offsetMs

  return {
    ...(store.hashKey && { hashKey: store.hashKey }),
    append(projectId, batch) {
      return store.append(scopedId(projectId), { ...batch, receivedAt: stored(batch.receivedAt) })
    },
    known: (projectId, eventIds) => store.known(scopedId(projectId), eventIds),
    async find(projectId, eventId) {
      const found = await store.find(scopedId(projectId), eventId)
      return found && { ...found, receivedAt: shown(found.receivedAt) }
    },
    async *read(projectId, options = {}) {
      const { from } = options
      const range = { ...options, ...(from !== undefined && { from: stored(from) }) }
      for await (const event of store.read(scopedId(projectId), range)) {
        yield { ...event, receivedAt: shown(event.receivedAt) }
      }
    },
    lastCursor: (projectId) => store.lastCursor(scopedId(projectId)),
    async totals(projectId) {
      const { firstAt, lastAt, ...totals } = await store.totals(scopedId(projectId))
      return {
        ...totals,
        ...(firstAt !== undefined && { firstAt: shown(firstAt) }),
        ...(lastAt !== undefined && { lastAt: shown(lastAt) }),
      }
    },
    ...(watchCommits && { watchCommits }),
    ...(measure && { measure }),
    erase: (projectId, eventIds) => store.erase(scopedId(projectId), eventIds),
    expire: (projectId, before) => store.expire(scopedId(projectId), stored(before)),
    ...(store.purge && { purge: () => store.purge?.() ?? Promise.resolve() }),
    async countSince(projectId, since, batchesMax) {
      const recent = await store.countSince(scopedId(projectId), stored(since), batchesMax)
      return { ...recent, since: shown(recent.since) }
    },

    async map(key) {
      return slotWith(shown, await store.map({ ...key, projectId: scopedId(key.projectId) }))
    },
    async maps(projectId, selection) {
      const entries = await store.maps(scopedId(projectId), selection)
      return entries.map(({ slot, ...id }) => ({ ...id, slot: slotWith(shown, slot) }))
    },
    async builds(projectId, selection) {
      const entries = await store.builds(scopedId(projectId), selection)
      return entries.map(({ frozenAt, ...entry }) => ({
        ...entry,
        ...(frozenAt !== undefined && { frozenAt: shown(frozenAt) }),
      }))
    },
    updateMap(key, chunks, decide) {
      return store.updateMap({ ...key, projectId: scopedId(key.projectId) }, chunks, (slot, present) => {
        const { contents, result } = decide(slotWith(shown, slot), present)
        return { ...(contents && { contents: contentsWith(stored, contents) }), result }
      })
    },
    putChunk(projectId, chunk) {
      return store.putChunk(scopedId(projectId), { ...chunk, receivedAt: stored(chunk.receivedAt) })
    },
    readChunk: (projectId, digest) => store.readChunk(scopedId(projectId), digest),
    ...(hashChunks && {
      hashChunks: (projectId: string, chunks: readonly ChunkRef[], signal: AbortSignal) =>
        hashChunks(scopedId(projectId), chunks, signal),
    }),
    sweepMaps: (touchedBefore) => store.sweepMaps(stored(touchedBefore)),
    pendingTotals: (projectId) => store.pendingTotals(scopedId(projectId)),

    async project(projectId) {
      return withId(await store.project(scopedId(projectId)), projectId)
    },
    async projects() {
      const all = await store.projects()
      return all.filter((projectId) => projectId.startsWith(prefix)).map((projectId) => projectId.slice(prefix.length))
    },
    updateProject(projectId, decide) {
      return store.updateProject(scopedId(projectId), (before) => {
        const { project, result } = decide(withId(before, projectId))
        return { ...(project && { project: { ...project, projectId: scopedId(projectId) } }), result }
      })
    },

    check: () => store.check(),
    close: () => store.close(),
  }
}

function slotWith(time: (ms: number) => number, { frozenAt, ...contents }: MapSlot): MapSlot {
  return { ...(frozenAt !== undefined && { frozenAt: time(frozenAt) }), ...contentsWith(time, contents) }
}

function contentsWith<Contents extends MapContents>(time: (ms: number) => number, contents: Contents): Contents {
  const { complete, pending } = contents
  return {
    ...contents,
    ...(complete && { complete: { ...complete, publishedAt: time(complete.publishedAt) } }),
    ...(pending && { pending: { ...pending, touchedAt: time(pending.touchedAt) } }),
  }
}

function withId(project: Project | undefined, projectId: string): Project | undefined {
  return project && { ...project, projectId }
}
