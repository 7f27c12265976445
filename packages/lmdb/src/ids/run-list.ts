import { randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Environment, Table } from '../environment/environment.ts'
import { DamagedRun, type Run } from './run.ts'

/** The published runs, newest first, and how much of the log they hold. Replaced as a whole, in one transaction. */
export interface RunList {
  /** Rises with every change. */
  revision: number
  /** The seed of the store whose log this is the index of. */
  seed: string
  /** Every id in the log up to and with this record is in a run. */
  watermark: number
  /** The checksum of that record, which differs in another log. */
  watermarkChecksum: number
  lastRun: number
  /** How often runs were merged. */
  merges: number
  runs: Run[]
}

/** The tables of `data/ids/`. */
export interface IdTables {
  environment: Environment
  /** One row each: the list of runs, its revision, and the claim. */
  meta: Table
  blocks: Table
  filters: Table
}

/** Look-ups read single pages at random. */
export const idsOptions = { noReadAhead: true } as const

export function openIdTables(environment: Environment): IdTables {
  return {
    environment,
    meta: environment.table('meta'),
    blocks: environment.table('blocks'),
    filters: environment.table('filters'),
  }
}

const listKey = Buffer.from('list')
const revisionKey = Buffer.from('revision')
const claimKey = Buffer.from('claim')

/** The list of a store that has no runs yet. */
export function emptyRunList(seed: string): RunList {
  return { revision: 0, seed, watermark: 0, watermarkChecksum: 0, lastRun: 0, merges: 0, runs: [] }
}

/** The revision of the list, cheap enough to read in every transaction. */
export function readRevision({ meta }: IdTables): number {
  return meta.getBinary(revisionKey)?.readDoubleLE() ?? 0
}

/** @throws {DamagedRun} for a damaged list */
export function readRunList({ meta }: IdTables): RunList | undefined {
  const bytes = meta.getBinary(listKey)
  if (!bytes) return undefined
  try {
    const { checksum, ...list }: RunList & { checksum: number } = JSON.parse(bytes.toString())
    if (checksum === checksumOf(list)) return list
  } catch {
    // not JSON
  }
  throw new DamagedRun('The list of the runs of the id index is damaged.')
}

/** The version of the index on disk. The checksum of a list of another version differs, so the index is rebuilt. */
const format = 1

function checksumOf(list: RunList): number {
  return crc32(JSON.stringify(list), format)
}

/** Replaces the list, whose last member is a CRC32 of the others. Only inside a write transaction. */
export function writeRunList({ meta }: IdTables, list: RunList): void {
  const revision = Buffer.allocUnsafe(8)
  revision.writeDoubleLE(list.revision)
  meta.put(revisionKey, revision)
  meta.put(listKey, Buffer.from(JSON.stringify({ ...list, checksum: checksumOf(list) })))
}

/** How long a claim lasts unless it is renewed. After its holder is killed, no worker flushes for this long. */
const claimMs = 5_000

/** The right to flush and merge, which one worker at a time has, over all processes. */
export function createClaim({ meta, environment }: IdTables, now: () => number = Date.now) {
  const own = randomInt(1, 2 ** 48 - 1)
  let hasClaim = false

  function read(): { owner: number; until: number } {
    const bytes = meta.getBinary(claimKey)
    if (!bytes) return { owner: 0, until: 0 }
    return { owner: bytes.readDoubleLE(0), until: bytes.readDoubleLE(8) }
  }

  function write(until: number): void {
    const bytes = Buffer.allocUnsafe(16)
    bytes.writeDoubleLE(own, 0)
    bytes.writeDoubleLE(until, 8)
    meta.put(claimKey, bytes)
  }

  /** An error here costs duplicated work, nothing else. */
  function isHeld(until: number): boolean {
    // a clock that was set back must not extend a claim
    return until > now() && until <= now() + claimMs
  }

  return {
    /**
     * Acquires or renews the claim and runs `work`, in one transaction, unless another worker has it. `renewed`: no
     * other worker has had it since this one acquired it, so an unfinished merge is still valid.
     */
    write(work: (claimed: 'renewed' | 'acquired') => void): 'worked' | 'busy' {
      return environment.write(() => {
        const claim = read()
        hasClaim = claim.owner === own || !isHeld(claim.until)
        if (!hasClaim) return 'busy'
        write(now() + claimMs)
        work(claim.owner === own ? 'renewed' : 'acquired')
        return 'worked'
      })
    },

    /** Lets another worker continue at once. */
    release(): void {
      if (!hasClaim) return
      environment.write(() => {
        if (read().owner === own) write(0)
      })
      hasClaim = false
    },
  }
}
