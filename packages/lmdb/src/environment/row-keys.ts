// keys are big-endian, so that the byte order of LMDB is the order of the numbers

/** The key of a record in the log. */
export function sequenceKey(sequence: number): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(BigInt(sequence))
  return key
}

/** The sequence number at the end of a key. */
export function readSequence(key: Buffer): number {
  return Number(key.readBigUInt64BE(key.length - 8))
}

/** A key within a project: the number of the project, then `rest`. */
export function projectKey(project: number, rest: Uint8Array = new Uint8Array()): Buffer {
  const key = Buffer.allocUnsafe(4 + rest.length)
  key.writeUInt32BE(project)
  key.set(rest, 4)
  return key
}
