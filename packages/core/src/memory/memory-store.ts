import { randomBytes } from 'node:crypto'
import { IngestError } from '../error.ts'
import { eventCursors, type StoreIdentity } from '../json/cursor.ts'
import type { EntryStore, Store } from '../store.ts'
import type { Entries, EntryKind } from '../store-types.ts'
import { memoryActivityStore } from './memory-activity.ts'
import { createProjectEvents, memoryEventStore, type ProjectEvents } from './memory-events.ts'
import { compareBytes, createProjectMaps, memoryMapStore, type ProjectMaps, sweepProjectMaps } from './memory-maps.ts'

interface KeptProject {
  events: ProjectEvents
  maps: ProjectMaps
}

/**
 * A store in memory, for tests and evaluation; closing it discards everything. No operation awaits between a read and a
 * write, so every operation is atomic.
 */
export function openMemoryStore(): Store {
  const identity: StoreIdentity = { id: randomBytes(8), epoch: randomBytes(8) }
  const kept = new Map<string, KeptProject>()
  let isOpen = true
  const { sweepActivity, ...activityStore } = memoryActivityStore(checkOpen)

  function checkOpen(): void {
    if (!isOpen) throw new IngestError('store-closed', 'The store is closed.')
  }

  function projectOf(projectId: string): KeptProject {
    checkOpen()
    const existing = kept.get(projectId)
    if (existing) return existing
    const events = createProjectEvents(eventCursors(identity, projectId))
    const project = { events, maps: createProjectMaps(events.frozenAt) }
    kept.set(projectId, project)
    return project
  }

  function usedProjects(): string[] {
    const isUsed = ({ events, maps }: KeptProject) => events.batches.length > 0 || maps.maps.size > 0
    return [...kept].filter(([, project]) => isUsed(project)).map(([projectId]) => projectId)
  }

  return {
    ...memoryEventStore((projectId) => projectOf(projectId).events),
    ...memoryMapStore((projectId) => projectOf(projectId).maps),
    ...memoryEntryStore(checkOpen, usedProjects),
    ...activityStore,

    async sweep({ mapsTouched, activity }) {
      checkOpen()
      for (const { maps } of kept.values()) sweepProjectMaps(maps, mapsTouched)
      sweepActivity(activity)
    },

    async check() {
      checkOpen()
    },

    async close() {
      isOpen = false
    },
  }
}

function memoryEntryStore(checkOpen: () => void, usedProjects: () => string[]): EntryStore {
  const kept: { [Kind in EntryKind]: Map<string, Entries[Kind]> } = { project: new Map(), consumers: new Map() }
  return {
    async entry(kind, projectId) {
      checkOpen()
      return kept[kind].get(projectId)
    },

    async updateEntry(kind, projectId, decide) {
      checkOpen()
      const { entry, result } = decide(kept[kind].get(projectId))
      if (entry === null) kept[kind].delete(projectId)
      else if (entry) kept[kind].set(projectId, entry)
      return result
    },

    async projects(kind = 'project') {
      checkOpen()
      return [...new Set([...(kind === 'project' ? usedProjects() : []), ...kept[kind].keys()])].sort(compareBytes)
    },
  }
}
