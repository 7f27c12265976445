import type { ActivityToPut, Store } from '@ingest/core'

let scopeCount = 0
/** Longer than any check's range of times, and whole hours because of activity. */
const scopeMs = 24 * 3_600_000
/** In 1992, so that 12,000 scopes end before the present: a store may replace times in the future. */
const firstScopeMs = 200_000 * 3_600_000

/** The projects and times of one check. */
export interface CheckScope {
  prefix: string
  offsetMs: number
}

export function createScope(): CheckScope {
  scopeCount++
  return { prefix: `scope-${scopeCount}-`, offsetMs: firstScopeMs + scopeCount * scopeMs }
}

/** Operations whose first argument is a project, and whose times are only in objects that they take or return. */
const ofProjects = [
  ...(['append', 'known', 'find', 'totals', 'count', 'erase'] as const),
  ...(['maps', 'builds', 'putChunk', 'readChunk', 'pendingTotals'] as const),
]
const timeNames = new Set(['receivedAt', 'firstAt', 'lastAt', 'from', 'frozenAt', 'publishedAt', 'touchedAt'])

/**
 * A view of a store with its own projects and times, so that checks can share a store. Project ids get a prefix; times get
 * an offset, because the times of a log never decrease.
 */
export function scopeStore(store: Store, { prefix, offsetMs }: CheckScope): Store {
  const scopedId = (projectId: string) => `${prefix}${projectId}`
  const stored = <T>(value: T) => withTimes(value, offsetMs)
  const shown = <T>(value: T) => withTimes(value, -offsetMs)
  const ownOf = (all: readonly string[]) =>
    all.filter((projectId) => projectId.startsWith(prefix)).map((projectId) => projectId.slice(prefix.length))

  const scoped = ofProjects.flatMap((name) => {
    const operate = store[name] as ((projectId: string, ...rest: unknown[]) => Promise<unknown>) | undefined
    const scopedOperate = async (projectId: string, ...rest: unknown[]) =>
      shown(await operate?.(scopedId(projectId), ...rest.map(stored)))
    return operate ? [[name, scopedOperate]] : []
  })
  return {
    ...store,
    ...(Object.fromEntries(scoped) as Pick<Store, (typeof ofProjects)[number]>),

    async *read(projectId, options = {}) {
      for await (const page of store.read(scopedId(projectId), stored(options))) yield page.map(shown)
    },
    expire: (projectId, before) => store.expire(scopedId(projectId), before + offsetMs),
    sweep: ({ mapsTouched, activity }) =>
      store.sweep({ mapsTouched: mapsTouched + offsetMs, activity: activity + offsetMs }),

    putActivity(rows) {
      const scopedRow = (row: ActivityToPut) => ({ ...row, projectId: scopedId(row.projectId), at: row.at + offsetMs })
      return store.putActivity(rows.map(scopedRow))
    },
    async *activity(projectId, { span, from, to }) {
      const range = { span, from: from + offsetMs, to: to + offsetMs }
      for await (const row of store.activity(scopedId(projectId), range)) yield { ...row, at: row.at - offsetMs }
    },

    async map(key) {
      return shown(await store.map({ ...key, projectId: scopedId(key.projectId) }))
    },
    updateMap(key, chunks, decide) {
      return store.updateMap({ ...key, projectId: scopedId(key.projectId) }, chunks, (slot, present) => {
        const { contents, result } = decide(shown(slot), present)
        return { ...(contents && { contents: stored(contents) }), result }
      })
    },

    async entry(kind, projectId) {
      return withId(await store.entry(kind, scopedId(projectId)), projectId)
    },
    updateEntry(kind, projectId, decide) {
      return store.updateEntry(kind, scopedId(projectId), (before) => {
        const { entry, result } = decide(withId(before, projectId))
        return { ...(entry !== undefined && { entry: withId(entry, scopedId(projectId)) }), result }
      })
    },
    projects: async (kind) => ownOf(await store.projects(kind)),
  }
}

/** A copy with all times shifted; bytes and other values that are not plain objects are kept. */
function withTimes<T>(value: T, ms: number): T {
  if (Array.isArray(value)) return value.map((each) => withTimes(each, ms)) as T
  if (value === null || typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype) return value
  const members = Object.entries(value).map(([name, member]) => [
    name,
    typeof member === 'number' && timeNames.has(name) ? member + ms : withTimes(member, ms),
  ])
  return Object.fromEntries(members)
}

/** Replaces the project id in an entry that has one. */
function withId<Entry>(entry: Entry, projectId: string): Entry {
  const hasId = typeof entry === 'object' && entry !== null && 'projectId' in entry
  return hasId ? { ...entry, projectId } : entry
}
