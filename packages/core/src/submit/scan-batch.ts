import { batchBytesMax } from '../events/batch.ts'
import type { BatchEvents } from '../store-types.ts'
import { isProjectId } from '../validation.ts'
import { wordsPerEvent } from './batch-events.ts'
import { loadScanner, type Scanner } from './scanner.ts'

/**
 * Scans a batch of valid events in the usual form, in one pass. Returns undefined for any other batch, such as one with
 * an invalid event, a repeated id, or an escape in a known member: `parseBatch` and `classifyEvents` decide those. For
 * an accepted batch they would return the same events.
 *
 * `body` must be UTF-8.
 */
export function scanBatch(body: Buffer, projectId: string, hashKey: Uint8Array): BatchEvents | undefined {
  const scanner = loadScanner()
  if (scanner === null || body.length > batchBytesMax || !setProject(scanner, projectId)) return undefined
  const { bytes, words, rowsStart } = scanner
  bytes.set(hashKey, scanner.hashKeyStart)
  bytes.set(body, scanner.bodyStart)
  const count = scanner.scan(body.length, projectId.length + quoteBytes)
  if (count === -1) return undefined
  const from = rowsStart >> 2
  return {
    rows: words.slice(from, from + count * wordsPerEvent),
    builds: readNames(scanner, body, scanner.buildsStart, scanner.countBuilds()),
    types: readNames(scanner, body, scanner.typesStart, scanner.countTypes()),
    hashKey,
  }
}

const quoteBytes = 2

/** The project whose id is in the scanner's memory. */
let currentProjectId: string | undefined

/** Returns false for an invalid project id. */
function setProject({ bytes, projectIdStart }: Scanner, projectId: string): boolean {
  if (projectId === currentProjectId) return true
  if (!isProjectId(projectId)) return false
  bytes.set(Buffer.from(`"${projectId}"`), projectIdStart)
  currentProjectId = projectId
  return true
}

/** Reads the names whose ranges the scanner has written at `start`. */
function readNames({ words }: Scanner, body: Buffer, start: number, count: number): string[] {
  const names: string[] = []
  const from = start >> 2
  const end = from + 2 * count
  for (let at = from; at < end; at += 2) {
    // without its quotes
    names.push(body.toString('utf8', (words[at] as number) + 1, (words[at + 1] as number) - 1))
  }
  return names
}
