import { relative } from 'node:path'
import { projectId, key as projectKey } from './scripted-server.ts'

/** The settings in the environment of a program. */
export interface Settings {
  /** `INGEST_TIME_SCALE`. Default 0.001. */
  timeScale?: number
  /** `INGEST_TIMEOUT_MS`. Default 30,000. */
  timeoutMs?: number
  /** `INGEST_FLUSH_MS`. Default 600,000: only full batches are sent without a flush. */
  flushMs?: number
  /** `INGEST_QUEUE_EVENTS`. Default 10,000. */
  queueEvents?: number
  /** `INGEST_QUEUE_BYTES`. Default 16 MiB. */
  queueBytes?: number
  /** `INGEST_CLOSE_MS`. Default 600,000. */
  closeMs?: number
  /** Whether `INGEST_SPOOL` names a directory. Default false. */
  hasSpool?: boolean
  /** Whether `INGEST_SPOOL` is relative, and `INGEST_CHDIR` names another directory. Default false. */
  changesDirectory?: boolean
  /** A path at the end of `INGEST_URL`. Default none. */
  path?: string
  /** `INGEST_URL`. Default: that of the server. */
  url?: string
  /** `INGEST_KEY`. Default: that of the project. */
  key?: string
}

/** The directories of a play's program. */
export interface Directories {
  spool: string
  /** Another directory, from which the relative path of the spool does not leave the play. */
  elsewhere: string
}

/** The variables of a program. */
export function toVariables(settings: Settings, serverUrl: string, directories: Directories): Record<string, string> {
  const {
    timeoutMs = 30_000,
    flushMs = 600_000,
    queueEvents = 10_000,
    queueBytes = 16 * 1024 * 1024,
    closeMs = 600_000,
  } = settings
  const { hasSpool, changesDirectory, path = '', url = serverUrl + path, key = projectKey } = settings
  const spool = changesDirectory ? relative('', directories.spool) : directories.spool
  return {
    INGEST_URL: url,
    INGEST_PROJECT_ID: projectId,
    INGEST_KEY: key,
    INGEST_TIME_SCALE: String(scaleOf(settings)),
    INGEST_TIMEOUT_MS: String(timeoutMs),
    INGEST_FLUSH_MS: String(flushMs),
    INGEST_QUEUE_EVENTS: String(queueEvents),
    INGEST_QUEUE_BYTES: String(queueBytes),
    INGEST_CLOSE_MS: String(closeMs),
    INGEST_SPOOL: hasSpool ? spool : '',
    INGEST_CHDIR: changesDirectory ? directories.elsewhere : '',
    // UTC+14: a date that is parsed as local time is far off
    TZ: 'Pacific/Kiritimati',
  }
}

/** The factor for the sender's pauses. */
export function scaleOf({ timeScale = 0.001 }: Settings): number {
  return timeScale
}
