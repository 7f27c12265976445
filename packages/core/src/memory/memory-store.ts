import { randomBytes } from 'node:crypto'
import type { ConsumerRecord, ConsumerStore } from '../consumers/consumer-store.ts'
import { IngestError } from '../error.ts'
import { eventCursors, type StoreIdentity } from '../json/cursor.ts'
import type { Project, ProjectStore } from '../projects/project.ts'
import type { Store } from '../store.ts'
import { memoryActivityStore } from './memory-activity.ts'
import { createProjectEvents, memoryEventStore, type ProjectEvents } from './memory-events.ts'
import { compareBytes, createProjectMaps, memoryMapStore, type ProjectMaps } from './memory-maps.ts'

interface KeptProject {
  events: ProjectEvents
  maps: ProjectMaps
}

/**
 * A store in memory, for tests and evaluation; closing it discards everything. No operation awaits between a read and a
 * write, so all are atomic.
 */
export function openMemoryStore(): Store {
  const identity: StoreIdentity = { id: randomBytes(8), epoch: randomBytes(8) }
  const kept = new Map<string, KeptProject>()
  let isOpen = true

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

  function allMaps(): ProjectMaps[] {
    checkOpen()
    return [...kept.values()].map(({ maps }) => maps)
  }

  function usedProjects(): string[] {
    checkOpen()
    const isUsed = ({ events, maps }: KeptProject) => events.batches.length > 0 || maps.maps.size > 0
    return [...kept].filter(([, project]) => isUsed(project)).map(([projectId]) => projectId)
  }

  return {
    ...memoryEventStore((projectId) => projectOf(projectId).events),
    ...memoryMapStore((projectId) => projectOf(projectId).maps, allMaps),
    ...memoryProjectStore(checkOpen, usedProjects),
    ...memoryConsumerStore(checkOpen),
    ...memoryActivityStore(checkOpen),

    async check() {
      checkOpen()
    },

    async close() {
      isOpen = false
    },
  }
}

function memoryConsumerStore(checkOpen: () => void): ConsumerStore {
  const kept = new Map<string, readonly ConsumerRecord[]>()
  return {
    async consumers(projectId) {
      checkOpen()
      return kept.get(projectId) ?? []
    },

    async consumerProjects() {
      checkOpen()
      return [...kept.keys()].sort(compareBytes)
    },

    async updateConsumers(projectId, decide) {
      checkOpen()
      const { consumers, result } = decide(kept.get(projectId) ?? [])
      if (consumers?.length === 0) kept.delete(projectId)
      else if (consumers) kept.set(projectId, consumers)
      return result
    },
  }
}

function memoryProjectStore(checkOpen: () => void, usedProjects: () => string[]): ProjectStore {
  const projects = new Map<string, Project>()
  return {
    async project(projectId) {
      checkOpen()
      return projects.get(projectId)
    },

    async projects() {
      return [...new Set([...usedProjects(), ...projects.keys()])].sort(compareBytes)
    },

    async updateProject(projectId, decide) {
      checkOpen()
      const { project, result } = decide(projects.get(projectId))
      if (project) projects.set(projectId, project)
      return result
    },
  }
}
