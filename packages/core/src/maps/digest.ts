import { createHash, webcrypto } from 'node:crypto'
import type { Issue } from '../error.ts'
import type { Digest } from '../store-types.ts'

export const digestPattern = /^sha256:[0-9a-f]{64}$/

/** Whether `value` is `sha256:` and 64 lower-case hex digits. */
export function isDigest(value: unknown): value is Digest {
  return typeof value === 'string' && digestPattern.test(value)
}

/** The issue of `value` as a digest; undefined for a valid one. */
export function digestIssue(value: unknown, path: string): Issue | undefined {
  if (isDigest(value)) return undefined
  const message = 'Expected sha256: and 64 lower-case hex digits.'
  if (value === undefined) return { code: 'required', path, message }
  return { code: typeof value === 'string' ? 'invalid_format' : 'invalid_type', path, message }
}

/** The digest of the concatenated `parts`. */
export function digestOf(...parts: readonly Uint8Array[]): Digest {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return `sha256:${hash.digest('hex')}`
}

/** The thread pool copies its input: below this size, copying blocks the event loop for as long as hashing would. */
const pooledBytesMin = 65_536

/** The digest of bytes, computed on Node's thread pool from 64 KiB on. */
export async function computeDigest(bytes: Uint8Array): Promise<Digest> {
  if (bytes.length < pooledBytesMin) return digestOf(bytes)
  return `sha256:${Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex')}`
}
