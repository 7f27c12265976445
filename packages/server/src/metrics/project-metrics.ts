import type { BatchReport } from '@ingest/core'
import type { RequestRecord } from '../http/request-record.ts'
import type { MetricFactory } from './define-metrics.ts'
import { batchRoute } from './http-metrics.ts'

/** The label of all projects beyond `projectsMax`. */
const otherProjects = 'other'

export interface ProjectMetrics {
  countBatch(report: BatchReport): void
  /** Counts the bytes of a request and whether it was refused; ignores unauthenticated requests. */
  countRequest(record: RequestRecord): void
}

/**
 * Metrics labelled by project. Only projects with stored events or a valid key get a label, so requests cannot create
 * one.
 */
export function createProjectMetrics({ counter, gauge }: MetricFactory, projectsMax: number): ProjectMetrics {
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
    'Batches: accepted if an event was stored, rejected if none was and one is invalid, refused by an error.',
    'project',
    'outcome',
  )
  const events = counter('ingest_events_total', 'Events of batches.', 'project', 'outcome')
  const issues = counter('ingest_event_issues_total', 'Issues of rejected events.', 'project', 'code')
  const storedBytes = counter('ingest_stored_bytes_total', 'Bytes of accepted events.', 'project')
  const receivedBytes = counter(
    'ingest_received_bytes_total',
    'Bytes of the bodies of batches and maps, uncompressed.',
    'project',
  )
  const readBytes = counter('ingest_read_bytes_total', 'Bytes of the responses to reads.', 'project')
  const rateLimited = counter(
    'ingest_rate_limited_requests_total',
    'Requests refused by a rate limit.',
    'project',
    'budget',
  )
  const conflicts = counter(
    'ingest_duplicate_conflicts_total',
    'Duplicates that differ from the stored event.',
    'project',
  )
  const freezes = counter('ingest_builds_frozen_total', 'Builds frozen by their first event.', 'project')
  const frozenAt = gauge(
    'ingest_last_build_frozen_timestamp_seconds',
    'When a build last froze, in seconds since 1970.',
    'project',
  )

  /** These series exist before their first increment, so that a rate includes it. */
  function showZeros(project: string): void {
    for (const outcome of ['accepted', 'duplicate', 'rejected', 'refused']) batches.inc({ project, outcome }, 0)
    for (const outcome of ['accepted', 'duplicate', 'rejected']) events.inc({ project, outcome }, 0)
    for (const metric of [storedBytes, receivedBytes, readBytes, conflicts, freezes]) metric.inc({ project }, 0)
  }

  return {
    countBatch(report) {
      const { accepted, duplicates, rejected } = report.result
      const project = labelOf(report.projectId)
      batches.inc({ project, outcome: batchOutcome(accepted, rejected.length) })
      events.inc({ project, outcome: 'accepted' }, accepted)
      events.inc({ project, outcome: 'duplicate' }, duplicates)
      events.inc({ project, outcome: 'rejected' }, rejected.length)
      for (const { code } of rejected.flatMap((event) => event.issues)) issues.inc({ project, code })
      storedBytes.inc({ project }, report.storedBytes)
      conflicts.inc({ project }, report.conflicts)
      if (report.frozen.length === 0) return
      freezes.inc({ project }, report.frozen.length)
      frozenAt.setToCurrentTime({ project })
    },
    countRequest({ projectId, route, code, budget, receivedBytes: received, sentBytes: sent }) {
      if (projectId === undefined) return
      const project = labelOf(projectId)
      if (received) receivedBytes.inc({ project }, received)
      if (budget === 'reads' && sent) readBytes.inc({ project }, sent)
      if (code === undefined) return
      if (route === batchRoute) batches.inc({ project, outcome: 'refused' })
      if (code === 'rate-limited' && budget !== undefined) rateLimited.inc({ project, budget })
    },
  }
}

function batchOutcome(accepted: number, rejected: number): 'accepted' | 'rejected' | 'duplicate' {
  if (accepted > 0) return 'accepted'
  return rejected > 0 ? 'rejected' : 'duplicate'
}
