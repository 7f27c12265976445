/*
 * One-dimensional arrays in PostgreSQL's binary format (array_send in src/backend/utils/adt/arrayfuncs.c): the number
 * of dimensions, a flag for nulls, the type of the elements, the length and the lower bound of the dimension, and each
 * element with its length before it. In text, PostgreSQL and `pg` would escape and parse every byte.
 */
const headerBytes = 20
const elementHeaderBytes = 4

const oids = { bytea: 17, int8: 20, int2: 21, int4: 23, text: 25 }

export function byteaArray(values: readonly Uint8Array[]): Buffer {
  return bytesArray('bytea', values)
}

export function textArray(values: readonly string[]): Buffer {
  return bytesArray(
    'text',
    values.map((value) => Buffer.from(value)),
  )
}

export function int2Array(values: ArrayLike<number>): Buffer {
  return numberArray(oids.int2, 2, values, (out, value, at) => out.writeInt16BE(value, at))
}

export function int4Array(values: ArrayLike<number>): Buffer {
  return numberArray(oids.int4, 4, values, (out, value, at) => out.writeInt32BE(value, at))
}

/** An array of safe integers. */
export function int8Array(values: ArrayLike<number>): Buffer {
  return numberArray(oids.int8, 8, values, (out, value, at) => {
    out.writeInt32BE(Math.floor(value / 2 ** 32), at)
    out.writeUInt32BE(value >>> 0, at + 4)
  })
}

/**
 * An array of bytea or text whose elements are written in place. `write` writes element `index` at `at` and returns
 * where it ends. All elements together have at most `bytesMax` bytes.
 */
export function writtenArray(
  type: 'bytea' | 'text',
  length: number,
  bytesMax: number,
  write: (out: Buffer, at: number, index: number) => number,
): Buffer {
  const out = startArray(oids[type], length, length * elementHeaderBytes + bytesMax)
  if (length === 0) return out
  let at = headerBytes
  for (let i = 0; i < length; i++) {
    const end = write(out, at + elementHeaderBytes, i)
    out.writeInt32BE(end - at - elementHeaderBytes, at)
    at = end
  }
  return out.subarray(0, at)
}

function numberArray(
  oid: number,
  size: number,
  values: ArrayLike<number>,
  write: (out: Buffer, value: number, at: number) => void,
): Buffer {
  const out = startArray(oid, values.length, values.length * (elementHeaderBytes + size))
  for (let i = 0, at = headerBytes; i < values.length; i++, at += elementHeaderBytes + size) {
    out.writeInt32BE(size, at)
    write(out, values[i] as number, at + elementHeaderBytes)
  }
  return out
}

function bytesArray(type: 'bytea' | 'text', values: readonly Uint8Array[]): Buffer {
  const size = values.reduce((sum, value) => sum + value.length, 0)
  return writtenArray(type, values.length, size, (out, at, index) => {
    const value = values[index] as Uint8Array
    out.set(value, at)
    return at + value.length
  })
}

function startArray(oid: number, length: number, elementsBytes: number): Buffer {
  // an empty array has no dimensions
  const out = Buffer.allocUnsafe(length === 0 ? 12 : headerBytes + elementsBytes)
  out.writeInt32BE(length === 0 ? 0 : 1, 0)
  out.writeInt32BE(0, 4)
  out.writeInt32BE(oid, 8)
  if (length === 0) return out
  out.writeInt32BE(length, 12)
  out.writeInt32BE(1, 16)
  return out
}
