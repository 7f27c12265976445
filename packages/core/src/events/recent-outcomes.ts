import type { IssueCode } from '../error.ts'
import type { Slice } from '../json/json-scanner.ts'
import { checkLimit } from '../validation.ts'
import type { BatchResult, RejectedEvent } from './batch.ts'

/** Outcomes of the events of a project in one minute. */
export interface ActivityMinute {
  /** When the minute began, in milliseconds since 1970. */
  at: number
  accepted: number
  duplicates: number
  rejected: number
}

/** What one process received for a project. */
export interface Activity {
  /** Since when it has counted, in milliseconds since 1970. */
  since: number
  /** The live servers of the store, each of which counts for itself; 1 where they are not counted. */
  servers: number
  /** Of the last 60 minutes, those with events, oldest first. */
  minutes: ActivityMinute[]
}

/** An event that was rejected lately. */
export interface RecentRejection extends RejectedEvent {
  /** In milliseconds since 1970. */
  receivedAt: number
  /** Its exact text, where rejected events are kept. */
  event?: string
}

/** Rejected events with the same issue. */
export interface RejectionGroup {
  code: IssueCode
  /** The JSON Pointer of the issue, with `*` in place of array indexes. */
  path: string
  /** That of the newest event. */
  message: string
  /** How many of the events have the issue. */
  count: number
  /** When the newest was received, in milliseconds since 1970. */
  lastAt: number
}

/** The last rejected events of a project, in the memory of one process. */
export interface RecentRejections {
  /** Since when it has counted, in milliseconds since 1970. */
  since: number
  /** The events rejected since then, in memory or not. */
  total: number
  /** The 100 most frequent issues of all in memory, most frequent first. */
  groups: RejectionGroup[]
  /** Newest first. */
  rejected: RecentRejection[]
}

export interface RejectedOptions {
  /** The most events, 1 to 1,000. Default: 100. `groups` does not depend on it. */
  limit?: number
}

/** Reads what happened lately to the events of one project, in the memory of one process. */
export interface RecentOutcomesReader {
  /** Outcomes by minute. */
  getActivity(): Promise<Activity>
  /**
   * The last rejected events, at most 1,000 and 1 MiB of them. All projects together have 32 MiB: the least recently
   * used are dropped first.
   *
   * @throws {IngestError} `invalid-argument`
   */
  listRejected(options?: RejectedOptions): Promise<RecentRejections>
}

/** Counts the outcomes of batches and keeps rejected events in memory, by project. */
export interface RecentOutcomes {
  /** Copies the bytes of rejected events, if they are kept: the body may be transferred to another thread. */
  copyEvents(body: Uint8Array, slices: readonly Slice[]): readonly Uint8Array[]
  /**
   * Adds the outcome of one batch, received at a time in milliseconds since 1970. `copies` are the bytes of each rejected
   * event; empty if they are not kept.
   */
  record(projectId: string, receivedAt: number, result: BatchResult, copies: readonly Uint8Array[]): void
  readerOf(projectId: string): RecentOutcomesReader
}

/** How much is kept in memory. */
export interface RecentOutcomesBounds {
  projectEventsMax: number
  /** Of rejected events. */
  projectBytesMax: number
  /** Of all projects, {@link projectBytes} for each included. */
  bytesMax: number
}

export interface RecentOutcomesOptions {
  /** In milliseconds since 1970. */
  now: () => number
  startedAt: number
  serverCount: () => number
  keepEvents: boolean
  bounds?: RecentOutcomesBounds
}

const defaultBounds: RecentOutcomesBounds = {
  projectEventsMax: 1_000,
  projectBytesMax: 1_048_576,
  bytesMax: 33_554_432,
}

const minuteMs = 60_000
const minutesKept = 60
const groupsMax = 100
const limitMax = 1_000
const limitDefault = 100

/** About what a project takes without rejected events. */
export const projectBytes = 4_096
/** About what the objects of a rejected event and of an issue take, without their texts. */
const rejectionBytes = 300
const issueBytes = 100

export function createRecentOutcomes({
  now,
  startedAt,
  serverCount,
  keepEvents,
  bounds = defaultBounds,
}: RecentOutcomesOptions): RecentOutcomes {
  const projects = createRecentProjects(bounds.bytesMax, startedAt)
  return {
    copyEvents(body, slices) {
      // in memory of their own: a small part of a shared pool would keep all of the pool
      return keepEvents ? slices.map(({ start, end }) => new Uint8Array(body.subarray(start, end))) : []
    },

    record(projectId, receivedAt, { accepted, duplicates, rejected }, copies) {
      if (accepted + duplicates + rejected.length === 0) return
      const recent = projects.touch(projectId)
      const minute = minuteOf(recent, receivedAt)
      minute.accepted += accepted
      minute.duplicates += duplicates
      minute.rejected += rejected.length
      recent.total += rejected.length
      const bytesBefore = recent.bytes
      for (const [i, rejection] of rejected.entries()) {
        keep(recent, { receivedAt, ...rejection }, copies[i], bounds)
      }
      projects.addBytes(recent.bytes - bytesBefore, receivedAt)
    },

    readerOf: (projectId) => ({
      async getActivity() {
        const recent = projects.find(projectId)
        return { since: recent.since, servers: serverCount(), minutes: lastMinutes(recent, now()) }
      },

      async listRejected({ limit = limitDefault } = {}) {
        checkLimit(limit, limitMax, 'events')
        const { since, total, kept } = projects.find(projectId)
        // a batch that waits for its append is remembered later than batches after it
        const newestFirst = kept.toReversed().sort((a, b) => b.rejection.receivedAt - a.rejection.receivedAt)
        const rejected = newestFirst.slice(0, limit).map(toRecentRejection)
        return { since, total, groups: toGroups(newestFirst), rejected }
      },
    }),
  }
}

/** What is in memory of one project. */
interface Recent {
  since: number
  /** By the minute modulo 60, so that a clock that goes backwards needs no care. */
  minutes: (ActivityMinute | undefined)[]
  total: number
  /** Oldest first. */
  kept: KeptRejection[]
  /** Of `kept`. */
  bytes: number
}

interface KeptRejection {
  rejection: Omit<RecentRejection, 'event'>
  event: Uint8Array | undefined
  bytes: number
}

interface RecentProjects {
  /** What is in memory of a project, which may be nothing. */
  find(projectId: string): Recent
  /** Makes the project the most recently used. */
  touch(projectId: string): Recent
  /** Adds to the size of all projects, and drops the least recently used beyond the limit. */
  addBytes(bytes: number, time: number): void
}

function createRecentProjects(bytesMax: number, startedAt: number): RecentProjects {
  /** The least recently used first. */
  const recentByProject = new Map<string, Recent>()
  let bytesTotal = 0
  /** When a project was last dropped: what was counted before may be missing for any project that is not in memory. */
  let droppedAt = startedAt

  function find(projectId: string): Recent {
    return recentByProject.get(projectId) ?? { since: droppedAt, minutes: [], total: 0, kept: [], bytes: 0 }
  }

  return {
    find,

    touch(projectId) {
      const recent = find(projectId)
      if (!recentByProject.delete(projectId)) bytesTotal += projectBytes
      recentByProject.set(projectId, recent)
      return recent
    },

    addBytes(bytes, time) {
      bytesTotal += bytes
      for (const [projectId, recent] of recentByProject) {
        if (bytesTotal <= bytesMax) return
        recentByProject.delete(projectId)
        bytesTotal -= projectBytes + recent.bytes
        droppedAt = time
      }
    },
  }
}

/**
 * Keeps a rejected event, without its bytes if these are too large; not one whose issues are too large alone, as it would
 * displace all others.
 */
function keep(
  recent: Recent,
  rejection: KeptRejection['rejection'],
  copy: Uint8Array | undefined,
  { projectEventsMax, projectBytesMax }: RecentOutcomesBounds,
): void {
  let bytes = rejectionBytes + 2 * (rejection.eventId?.length ?? 0)
  for (const { path, message } of rejection.issues) bytes += issueBytes + 2 * (path.length + message.length)
  if (bytes > projectBytesMax) return
  const event = copy && bytes + copy.length <= projectBytesMax ? copy : undefined
  bytes += event?.length ?? 0
  recent.kept.push({ rejection, event, bytes })
  recent.bytes += bytes
  while (recent.kept.length > projectEventsMax || recent.bytes > projectBytesMax) {
    recent.bytes -= recent.kept.shift()?.bytes ?? 0
  }
}

/** The counts of the minute of a time. */
function minuteOf({ minutes }: Recent, time: number): ActivityMinute {
  const number = Math.floor(time / minuteMs)
  const at = number * minuteMs
  const slot = number % minutesKept
  const existing = minutes[slot]
  if (existing?.at === at) return existing
  const minute = { at, accepted: 0, duplicates: 0, rejected: 0 }
  minutes[slot] = minute
  return minute
}

function lastMinutes({ minutes }: Recent, time: number): ActivityMinute[] {
  return minutes
    .filter((minute) => minute !== undefined && minute.at <= time && minute.at > time - minutesKept * minuteMs)
    .map((minute) => ({ ...(minute as ActivityMinute) }))
    .sort((a, b) => a.at - b.at)
}

function toRecentRejection({ rejection, event }: KeptRejection): RecentRejection {
  return event ? { ...rejection, event: Buffer.from(event.buffer).toString() } : { ...rejection }
}

/** Each event counts once in a group, however many of its issues belong to it. */
function toGroups(newestFirst: readonly KeptRejection[]): RejectionGroup[] {
  const groups = new Map<string, { group: RejectionGroup; last: KeptRejection }>()
  for (const kept of newestFirst) {
    const { receivedAt, issues } = kept.rejection
    for (const { code, path: exactPath, message } of issues) {
      const path = exactPath.replaceAll(/\/(?:0|[1-9]\d*)(?=\/|$)/g, '/*')
      const name = `${code} ${path}`
      const existing = groups.get(name)
      if (!existing) groups.set(name, { group: { code, path, message, count: 1, lastAt: receivedAt }, last: kept })
      else if (existing.last !== kept) {
        existing.group.count++
        existing.last = kept
      }
    }
  }
  return [...groups.values()]
    .map(({ group }) => group)
    .sort((a, b) => b.count - a.count)
    .slice(0, groupsMax)
}
