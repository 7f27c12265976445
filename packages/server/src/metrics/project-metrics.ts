import type { BatchReport } from '@ingest/core'
import type { RequestRecord } from '../http/request-record.ts'
import type { MetricFactory } from './define-metrics.ts'

/** The label of all projects beyond the most that have one of their own. */
const otherProjects = 'other'

export interface ProjectMetrics {
  countBatch(report: BatchReport): void
  /** Counts a request that was refused; ignores one that is not authenticated. */
  countRefusal(record: RequestRecord): void
}

/**
 * The metrics with a project as their label. Projects have stored events or a valid key, so that a request without one
 * creates no label.
 */
export function createProjectMetrics({ counter }: MetricFactory, projectsMax: number): ProjectMetrics {
  const labels = new Set<string>()

  function labelOf(projectId: string): string {
    if (labels.has(projectId)) return projectId
    if (projectId === otherProjects || labels.size >= projectsMax) return otherProjects
    labels.add(projectId)
    showZeros(projectId)
    return projectId
  }

  const batches = counter(
    'ingest_batches_total',
    'Batches: accepted if an event was stored, rejected if none was and one is invalid, refused as a whole by an error.',
    'project',
    'outcome',
  )
  const events = counter('ingest_events_total', 'Events of batches.', 'project', 'outcome')
  const rateLimited = counter(
    'ingest_rate_limited_requests_total',
    'Requests refused by a rate limit.',
    'project',
    'budget',
  )
  const conflicts = counter(
    'ingest_duplicate_conflicts_total',
    'Duplicates whose bytes differ from those of the stored event.',
    'project',
  )
  const freezes = counter('ingest_builds_frozen_total', 'Builds frozen by their first event.', 'project')

  /** These exist before the first of them, so that a rate sees it. */
  function showZeros(project: string): void {
    for (const outcome of ['accepted', 'duplicate', 'rejected', 'refused']) batches.inc({ project, outcome }, 0)
    for (const outcome of ['accepted', 'duplicate', 'rejected']) events.inc({ project, outcome }, 0)
    conflicts.inc({ project }, 0)
    freezes.inc({ project }, 0)
  }

  return {
    countBatch(report) {
      const { accepted, duplicates, rejected } = report.result
      const project = labelOf(report.projectId)
      batches.inc({ project, outcome: batchOutcome(accepted, rejected.length) })
      events.inc({ project, outcome: 'accepted' }, accepted)
      events.inc({ project, outcome: 'duplicate' }, duplicates)
      events.inc({ project, outcome: 'rejected' }, rejected.length)
      conflicts.inc({ project }, report.conflicts)
      freezes.inc({ project }, report.frozen.length)
    },
    countRefusal({ projectId, route, code, budget }) {
      if (projectId === undefined) return
      const project = labelOf(projectId)
      if (route === batchRoute) batches.inc({ project, outcome: 'refused' })
      if (code === 'rate-limited' && budget !== undefined) rateLimited.inc({ project, budget })
    },
  }
}

const batchRoute = '/v1/events/batch'

function batchOutcome(accepted: number, rejected: number): 'accepted' | 'rejected' | 'duplicate' {
  if (accepted > 0) return 'accepted'
  return rejected > 0 ? 'rejected' : 'duplicate'
}
