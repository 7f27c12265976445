/*
 * One-dimensional arrays in PostgreSQL's binary format (array_send in src/backend/utils/adt/arrayfuncs.c): the number of
 * dimensions, a flag for nulls, the type of the elements, the length and the lower bound of the dimension, and each
 * element with its length before it. In text, PostgreSQL and `pg` would escape and parse every byte.
 */
const headerBytes = 20
const elementHeaderBytes = 4

const oids = { bytea: 17, int8: 20, int2: 21, int4: 23, text: 25, bool: 16 }

export function byteaArray(values: readonly Uint8Array[]): Buffer {
  return bytesArray(oids.bytea, values)
}

/** An array of texts from their UTF-8 bytes. */
export function utf8Array(values: readonly Uint8Array[]): Buffer {
  return bytesArray(oids.text, values)
}

export function textArray(values: readonly string[]): Buffer {
  return utf8Array(values.map((value) => Buffer.from(value)))
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

export function boolArray(values: readonly boolean[]): Buffer {
  return numberArray(oids.bool, 1, values.map(Number), (out, value, at) => out.writeUInt8(value, at))
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

function bytesArray(oid: number, values: readonly Uint8Array[]): Buffer {
  const size = values.reduce((sum, value) => sum + elementHeaderBytes + value.length, 0)
  const out = startArray(oid, values.length, size)
  let at = headerBytes
  for (const value of values) {
    out.writeInt32BE(value.length, at)
    out.set(value, at + elementHeaderBytes)
    at += elementHeaderBytes + value.length
  }
  return out
}

function startArray(oid: number, length: number, elementsBytes: number): Buffer {
  // an empty array has no dimension
  const out = Buffer.alloc(length === 0 ? 12 : headerBytes + elementsBytes)
  out.writeInt32BE(length === 0 ? 0 : 1, 0)
  out.writeInt32BE(oid, 8)
  if (length === 0) return out
  out.writeInt32BE(length, 12)
  out.writeInt32BE(1, 16)
  return out
}
