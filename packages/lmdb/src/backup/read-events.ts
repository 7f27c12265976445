import { column, hashId, scanBatch, sliceMember, wordsPerEvent } from '@ingest/core/internal'
import { parseEventId } from '../log/record.ts'

/** The keys by which the events of a record are indexed. */
export interface IndexedEvents {
  /** The high and the low half of the hash of each id. */
  hashes: Uint32Array
  /** The builds that the events reference. */
  builds: Iterable<string>
}

const head = Buffer.from('{"events":[')
const tail = Buffer.from(']}')
const openBrace = 0x7b

/**
 * Reads the ids and builds of the events of a record.
 *
 * @throws {IngestError} `store-damaged` or `malformed-body`, or a SyntaxError, for events that are not JSON
 */
export function readEvents(
  hashKey: Uint8Array,
  projectId: string | undefined,
  events: readonly Buffer[],
  payload: Buffer,
): IndexedEvents {
  const scanned =
    projectId === undefined ? undefined : scanBatch(Buffer.concat([head, payload, tail]), projectId, hashKey)
  const hashes = new Uint32Array(events.length * 2)
  if (scanned && scanned.rows.length === events.length * wordsPerEvent) {
    for (let i = 0; i < events.length; i++) {
      hashes[i * 2] = scanned.rows[i * wordsPerEvent + column.hashHigh] as number
      hashes[i * 2 + 1] = scanned.rows[i * wordsPerEvent + column.hashLow] as number
    }
    return { hashes, builds: scanned.builds }
  }
  const builds = new Set<string>()
  for (const [i, event] of events.entries()) {
    hashes.set(hashId(hashKey, parseEventId(event)), i * 2)
    const buildId = buildOf(event)
    if (buildId !== undefined) builds.add(buildId)
  }
  return { hashes, builds }
}

/** The build of an accepted event; undefined if it has none or is erased. */
function buildOf(event: Buffer): string | undefined {
  const value = event[0] === openBrace ? sliceMember(event, 'buildId') : undefined
  return value && JSON.parse(Buffer.from(value).toString())
}
