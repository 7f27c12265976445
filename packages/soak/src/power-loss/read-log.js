/**
 * One change of the recorded directory, or a note of the workload. `inode` is that of the file or directory, `from` the
 * former path of a renamed one; `id` names one call of a sync.
 *
 * @typedef {{ path: string, inode: number } & (
 *   | { op: 'write', offset: number, data: Buffer, isSynced: boolean }
 *   | { op: 'syncBegin', id: bigint }
 *   | { op: 'syncEnd', id: bigint }
 *   | { op: 'truncate', bytes: number }
 *   | { op: 'create' | 'mkdir' | 'link' | 'remove' }
 *   | { op: 'rename', from: string }
 *   | { op: 'note', note: Note }
 * )} Operation
 *
 * @typedef {{ type: 'phase', name: string, prefixes: string[] } | Promised} Note
 *
 * The beginning of an operation of the workload and, under the same number, its acknowledgement.
 * @typedef {{ type: 'begin' | 'end', number: number, promised: import('./workload-content.js').Promised }} Promised
 */

// the same as in recorder.c
const magic = 0x474f4c50
const names = /** @type {const} */ ([
  '',
  'write',
  'syncBegin',
  'syncEnd',
  'truncate',
  'create',
  'mkdir',
  'rename',
  'link',
  'remove',
  'note',
])
const headBytes = 40

/** @param {Buffer} log @returns {Operation[]} */
export function readLog(log) {
  /** @type {Operation[]} */
  const operations = []
  for (let at = 0; at < log.length; ) {
    if (log.readUInt32LE(at) !== magic) throw new Error(`the log is damaged at byte ${at}`)
    const op = names[log.readUInt32LE(at + 4)]
    const inode = Number(log.readBigUInt64LE(at + 8))
    const offset = log.readBigUInt64LE(at + 16)
    const dataAt = at + headBytes + log.readUInt32LE(at + 32)
    const path = log.toString('utf8', at + headBytes, dataAt)
    const flags = log.readUInt32LE(at + 36)
    at = dataAt + Number(log.readBigUInt64LE(at + 24))
    const data = log.subarray(dataAt, at)
    const named = { path, inode }
    if (op === 'write') operations.push({ ...named, op, offset: Number(offset), data, isSynced: flags !== 0 })
    else if (op === 'syncBegin') operations.push({ ...named, op, id: offset })
    else if (op === 'syncEnd') operations.push({ ...named, op, id: offset })
    else if (op === 'truncate') operations.push({ ...named, op, bytes: Number(offset) })
    else if (op === 'rename') operations.push({ ...named, op, from: data.toString() })
    else if (op === 'note') operations.push({ ...named, op, note: JSON.parse(data.toString()) })
    else if (op) operations.push({ ...named, op })
  }
  return operations
}

/** A record of the log that holds a note. @param {Note} note */
export function encodeNote(note) {
  const data = Buffer.from(JSON.stringify(note))
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(magic, 0)
  head.writeUInt32LE(names.indexOf('note'), 4)
  head.writeBigUInt64LE(BigInt(data.length), 24)
  return Buffer.concat([head, data])
}
