import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { IngestError } from '../error.ts'

/**
 * The position of a reader in the events of one project of one store: an opaque string of at most 40 of
 * `A-Z a-z 0-9 _ -`, made by `eventCursors`.
 */
export type Cursor = string

/**
 * The id of a store and its epoch, which changes when a backup is restored. Both are random, at least 8 bytes. A plain
 * copy of a store has the same identity.
 */
export interface StoreIdentity {
  id: Uint8Array
  epoch: Uint8Array
}

/** Encodes and decodes the event cursors of one project in one epoch of one store. */
export interface EventCursors {
  /**
   * @param position a safe integer that grows along the log of the project; 0 is before its first event
   * @param checksum an unsigned 32-bit checksum of the event at this position; 0 at position 0. It should cover more
   *   than the bytes of the event, such as its time or all events before it: a copy that is restored without a new epoch
   *   may store the same event at the same position after different ones
   */
  encode(position: number, checksum: number): string
  /**
   * Returns the position of a cursor; call `check` next.
   *
   * @throws {IngestError} `invalid-cursor` for a cursor of another store, epoch or project
   */
  decode(cursor: string): number
  /**
   * Checks a decoded cursor against the log: `checksum` is that of the event at its position, 0 for position 0,
   * undefined if there is no event.
   *
   * @throws {IngestError} `invalid-cursor` if the event differs or is missing
   */
  check(cursor: string, position: number, checksum: number | undefined): void
}

/*
 * A cursor is 24 bytes, as 32 characters of base64url:
 *
 * | bytes | content |
 * |---|---|
 * | 0 | 1: the cursor of an event |
 * | 1–4 | the first bytes of the id of the store |
 * | 5–8 | the first bytes of its epoch |
 * | 9–12 | a hash of the project |
 * | 13–19 | the position, big-endian |
 * | 20–23 | CRC32 of these bytes, with the checksum of the event in place of the CRC |
 */
const eventKind = 1
const idOffset = 1
const epochOffset = 5
const projectOffset = 9
const positionOffset = 13
const checkOffset = 20
const cursorBytes = 24
const cursorLength = 32

const eventMissing =
  'The event of the cursor is not in the store, as after a backup was restored: read from the beginning.'

/** The event cursors of a project, for store adapters. */
export function eventCursors({ id, epoch }: StoreIdentity, projectId: string): EventCursors {
  const prefix = Buffer.alloc(positionOffset)
  prefix[0] = eventKind
  prefix.set(id.subarray(0, 4), idOffset)
  prefix.set(epoch.subarray(0, 4), epochOffset)
  prefix.set(createHash('sha256').update(projectId).digest().subarray(0, 4), projectOffset)
  const bytes = Buffer.alloc(cursorBytes)

  function encode(position: number, checksum: number): string {
    bytes.set(prefix)
    bytes.writeUInt8(Math.floor(position / 2 ** 48), positionOffset)
    bytes.writeUIntBE(position % 2 ** 48, positionOffset + 1, 6)
    bytes.writeUInt32BE(checksum, checkOffset)
    bytes.writeUInt32BE(crc32(bytes), checkOffset)
    return bytes.toString('base64url')
  }

  return {
    encode,

    decode(cursor) {
      const given = decodeBase64(cursor, cursorLength)
      if (given?.[0] !== eventKind) throw invalidCursor('The cursor is not an event cursor of this store.')
      const isSame = (from: number, to: number) => prefix.subarray(from, to).equals(given.subarray(from, to))
      if (!isSame(idOffset, epochOffset)) {
        throw invalidCursor('The cursor is of another store: read from the beginning, without it.')
      }
      if (!isSame(epochOffset, projectOffset)) {
        throw invalidCursor('The cursor is from before a backup of the store was restored: read from the beginning.')
      }
      if (!isSame(projectOffset, positionOffset)) throw invalidCursor('The cursor is of another project.')
      const position = given.readUInt8(positionOffset) * 2 ** 48 + given.readUIntBE(positionOffset + 1, 6)
      if (Number.isSafeInteger(position)) return position
      throw invalidCursor(eventMissing)
    },

    check(cursor, position, checksum) {
      if (checksum === undefined || encode(position, checksum) !== cursor) throw invalidCursor(eventMissing)
    },
  }
}

/** Lists whose cursors hold the name of the last item of a page. */
export type ListKind = 'maps' | 'builds'

const listKinds: Record<ListKind, number> = { maps: 2, builds: 3 }

/** The cursor after the item with these names in a list of a project. */
export function encodeListCursor(kind: ListKind, projectId: string, names: readonly string[]): string {
  const text = Buffer.from(JSON.stringify(names))
  const check = Buffer.alloc(4)
  check.writeUInt32BE(crc32(text, crc32(projectId, listKinds[kind])))
  return Buffer.concat([Buffer.of(listKinds[kind]), check, text]).toString('base64url')
}

/**
 * The names in a list cursor, as `parse` returns them; it throws for invalid names, as cursors can be forged.
 *
 * @throws {IngestError} `invalid-cursor` for a cursor that is not of this list of this project
 */
export function decodeListCursor<T>(
  kind: ListKind,
  projectId: string,
  cursor: string,
  parse: (names: readonly unknown[]) => T,
): T {
  try {
    const names = JSON.parse(decodeBase64(cursor)?.toString('utf8', 5) ?? '')
    if (encodeListCursor(kind, projectId, names) === cursor) return parse(names)
  } catch {
    // reported below
  }
  throw invalidCursor(`The cursor is not one of this list of ${kind}.`)
}

/** Undefined for text that is not canonical base64url. */
function decodeBase64(text: string, length = text.length): Buffer | undefined {
  if (text.length !== length) return undefined
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text ? bytes : undefined
}

function invalidCursor(message: string): IngestError {
  return new IngestError('invalid-cursor', message)
}
