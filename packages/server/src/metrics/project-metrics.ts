import type { BatchReport } from '@ingest/core'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { RequestRecord } from '../http/request-record.ts'

/** The label of all projects beyond the most that have one of their own. */
const otherProjects = 'other'

/** Counts of one project, or of all projects without a label of their own. */
interface ProjectCounts {
  batches: { accepted: number; duplicate: number; rejected: number; refused: number }
  events: { accepted: number; duplicate: number; rejected: number }
  conflicts: number
  freezes: number
  /** By budget. */
  rateLimited: Record<string, number>
  /** The last sample; undefined without one. */
  skewSeconds: number | undefined
}

export interface ProjectMetrics {
  countBatch(report: BatchReport): void
  /** Counts a request that was refused; ignores one that is not authenticated. */
  countRefusal(record: RequestRecord): void
  /** @param seconds how far the newest timestamp of a batch is behind the clock of the server */
  setSkew(projectId: string, seconds: number): void
}

/**
 * The metrics with a project as their label. Projects have stored events or a valid key, so that a request without one
 * creates no label.
 */
export function createProjectMetrics(registry: Registry, projectsMax: number): ProjectMetrics {
  const byProject = new Map<string, ProjectCounts>()

  function countsOf(projectId: string): ProjectCounts {
    const known = byProject.get(projectId)
    if (known) return known
    const owned = byProject.size - (byProject.has(otherProjects) ? 1 : 0)
    const label = owned < projectsMax ? projectId : otherProjects
    const counts = byProject.get(label) ?? newCounts()
    byProject.set(label, counts)
    return counts
  }

  registerCounters(registry, byProject)
  return {
    countBatch({ projectId, result, conflicts, frozen }) {
      const counts = countsOf(projectId)
      counts.batches[batchOutcome(result.accepted, result.rejected.length)]++
      counts.events.accepted += result.accepted
      counts.events.duplicate += result.duplicates
      counts.events.rejected += result.rejected.length
      counts.conflicts += conflicts
      counts.freezes += frozen.length
    },
    countRefusal({ projectId, route, code, budget }) {
      if (projectId === undefined) return
      const counts = countsOf(projectId)
      if (route === batchRoute) counts.batches.refused++
      if (code === 'rate-limited' && budget !== undefined) {
        counts.rateLimited[budget] = (counts.rateLimited[budget] ?? 0) + 1
      }
    },
    setSkew(projectId, seconds) {
      countsOf(projectId).skewSeconds = seconds
    },
  }
}

const batchRoute = '/v1/events/batch'

function batchOutcome(accepted: number, rejected: number): 'accepted' | 'rejected' | 'duplicate' {
  if (accepted > 0) return 'accepted'
  return rejected > 0 ? 'rejected' : 'duplicate'
}

function newCounts(): ProjectCounts {
  return {
    batches: { accepted: 0, duplicate: 0, rejected: 0, refused: 0 },
    events: { accepted: 0, duplicate: 0, rejected: 0 },
    conflicts: 0,
    freezes: 0,
    rateLimited: {},
    skewSeconds: undefined,
  }
}

function registerCounters(registry: Registry, byProject: ReadonlyMap<string, ProjectCounts>): void {
  const registers = [registry]

  function byLabel(name: string, help: string, label: string, valuesOf: (counts: ProjectCounts) => object): void {
    new Counter({
      name,
      help,
      registers,
      labelNames: ['project', label],
      collect() {
        this.reset()
        for (const [project, counts] of byProject) {
          for (const [value, count] of Object.entries(valuesOf(counts))) this.inc({ project, [label]: value }, count)
        }
      },
    })
  }

  function total(name: string, help: string, countOf: (counts: ProjectCounts) => number): void {
    new Counter({
      name,
      help,
      registers,
      labelNames: ['project'],
      collect() {
        this.reset()
        for (const [project, counts] of byProject) this.inc({ project }, countOf(counts))
      },
    })
  }

  byLabel(
    'ingest_batches_total',
    'Batches: accepted if an event was stored, rejected if none was and one is invalid, refused as a whole by an error.',
    'outcome',
    ({ batches }) => batches,
  )
  byLabel('ingest_events_total', 'Events of batches.', 'outcome', ({ events }) => events)
  byLabel(
    'ingest_rate_limited_requests_total',
    'Requests refused by a rate limit.',
    'budget',
    ({ rateLimited }) => rateLimited,
  )
  total(
    'ingest_duplicate_conflicts_total',
    'Duplicates whose bytes differ from those of the stored event.',
    ({ conflicts }) => conflicts,
  )
  total('ingest_builds_frozen_total', 'Builds frozen by their first event.', ({ freezes }) => freezes)
  new Gauge({
    name: 'ingest_sender_clock_skew_seconds',
    help: 'How far the newest timestamp of a sampled batch was behind the clock of the server; negative if ahead.',
    registers,
    labelNames: ['project'],
    collect() {
      this.reset()
      for (const [project, { skewSeconds }] of byProject) {
        if (skewSeconds !== undefined) this.set({ project }, skewSeconds)
      }
    },
  })
}
