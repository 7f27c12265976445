import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { KeyRecord, Scope } from '../store-types.ts'

// Crockford's base32 in lower case: 32 characters, none ambiguous to people, none special in a shell
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
/** Characters of the key id. */
export const keyIdLength = 8
/** 5 bits a character: 160 random bits. */
const secretLength = 32
/** 32 bits of CRC, 5 bits a character. */
const checksumLength = 7
const keyPattern = new RegExp(
  `^(ik_([${alphabet}]{${keyIdLength}})_[${alphabet}]{${secretLength}})([${alphabet}]{${checksumLength}})$`,
)

/** Creates a key: `ik_`, 8 characters of id, `_`, 160 random bits and a CRC32, so that secret scanners recognize it. */
export function makeKey(random: (size: number) => Uint8Array = randomBytes): { key: string; keyId: string } {
  const characters = Array.from(random(keyIdLength + secretLength), (byte) => alphabet[byte & 31]).join('')
  const keyId = characters.slice(0, keyIdLength)
  const unsummed = `ik_${keyId}_${characters.slice(keyIdLength)}`
  return { key: unsummed + checksum(unsummed), keyId }
}

/** The id of a key; undefined for a malformed key, which needs no lookup. */
export function keyIdOf(key: string): string | undefined {
  const [, unsummed, keyId, sum] = keyPattern.exec(key) ?? []
  return unsummed !== undefined && checksum(unsummed) === sum ? keyId : undefined
}

/** The hash of a key, as it is stored. */
export function hashKey(key: string): string {
  return hash('sha256', key)
}

/** Whether `key` matches `record` and may be used for `scope` at `now`. */
export function isKeyOf(record: KeyRecord, key: string, scope: Scope, now: number): boolean {
  const same = timingSafeEqual(Buffer.from(hashKey(key)), Buffer.from(record.hash))
  return same && isActive(record, now) && record.scopes.includes(scope)
}

/** Whether the key is neither revoked nor expired. */
export function isActive(record: KeyRecord, now: number): boolean {
  return record.revokedAt === undefined && (record.expiresAt === undefined || now < record.expiresAt)
}

/** A key without its hash, as shown in responses and commands. */
export interface DescribedKey {
  keyId: string
  name: string | null
  state: 'active' | 'expired' | 'revoked'
  scopes: readonly Scope[]
  /** RFC 3339. */
  createdAt: string
  expiresAt: string | null
  revokedAt: string | null
  lastUsedAt: string | null
}

export function describeKey(record: KeyRecord, now: number): DescribedKey {
  const { keyId, name = null, scopes, createdAt, expiresAt, revokedAt, lastUsedAt } = record
  const toTime = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  const ended = revokedAt === undefined ? 'expired' : 'revoked'
  return {
    keyId,
    name,
    state: isActive(record, now) ? 'active' : ended,
    scopes,
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: toTime(expiresAt),
    revokedAt: toTime(revokedAt),
    lastUsedAt: toTime(lastUsedAt),
  }
}

function checksum(text: string): string {
  const sum = crc32(text)
  let characters = ''
  for (let shift = 5 * (checksumLength - 1); shift >= 0; shift -= 5) characters += alphabet[(sum >>> shift) & 31]
  return characters
}
