import {
  closeSync,
  constants,
  fchownSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { IngestError } from '@ingest/core'
import { makeDirectory } from '@ingest/core/internal'

/*
 * New files in a store get the owner of its `events/`: else a command of root would lock out a server that runs as
 * another user. Files of a new store get the owner of the directory around it. This process changes the owner only of
 * files that it has created, and by descriptor: the owner of a directory can put a link to any file in its place.
 */

/** A user and a group, such as those of a file. */
type Owner = Pick<Stats, 'uid' | 'gid'>

const root = 0
/** The bit of CAP_CHOWN. */
const chownBit = 1n

/** Creates a directory that only its owner may access, and its missing parents, durably. */
export function makeOwnedDirectory(path: string): void {
  makeDirectory(path, 0o700, (created) => give(created, statSync(dirname(created))))
}

/**
 * Creates the directory of an environment and, unless LMDB would create them for the right owner, its files.
 *
 * @throws {IngestError} `permission-denied` for a store of another user that lacks some, unless this process is root;
 *   `invalid-argument` for a file in place of the directory; `disk-full`
 */
export function createFiles(directory: string): void {
  const store = dirname(directory)
  makeOwnedDirectory(store)
  const events = statSync(join(store, 'events'), { throwIfNoEntry: false })
  createFilesOf(directory, events ?? statSync(store), events !== undefined)
}

/** Like {@link createFiles}, for an environment inside the directory of another one. */
export function createInnerFiles(directory: string): void {
  createFilesOf(directory, statSync(dirname(directory)), true)
}

function createFilesOf(directory: string, owner: Owner, isExisting: boolean): void {
  const user = process.geteuid?.() ?? owner.uid
  const paths = [directory, join(directory, 'data.mdb'), join(directory, 'lock.mdb')]
  if (user !== owner.uid && isExisting && !mayGive()) {
    const missing = paths.find((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
    if (missing === undefined) return
    throw new IngestError(
      'permission-denied',
      `${missing} is missing, and the store belongs to uid ${owner.uid}, while this process runs as uid ${user}. Run it as that user.`,
    )
  }
  makeDirectory(directory, 0o700, (created) => give(created, owner))
  if (user === owner.uid || !mayGive()) return
  for (const path of paths.slice(1)) createFile(path, owner)
}

/** Creates an empty file, unless there is one. LMDB takes an empty file for a new one. */
export function createFile(path: string, owner: Owner): void {
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return
    throw error
  }
  try {
    giveOpen(file, owner)
  } finally {
    closeSync(file)
  }
}

/** Gives a directory that this process has filled, with all that is in it, to the owner of another one. */
export function giveAll(directory: string, owner: Owner): void {
  if (owner.uid === root || !mayGive()) return
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) giveAll(path, owner)
    else give(path, owner)
  }
  give(directory, owner)
}

/** The owner of the nearest directory that exists, at a path or above it. */
export function ownerAt(path: string): Owner {
  return statSync(path, { throwIfNoEntry: false }) ?? ownerAt(dirname(path))
}

/** Whether this process may give its files to other users: root in a container may lack this right. */
function mayGive(): boolean {
  if (process.geteuid?.() !== root) return false
  if (process.platform !== 'linux') return true
  const [, capabilities] = /^CapEff:\s+([\da-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return (BigInt(`0x${capabilities}`) & chownBit) !== 0n
}

function give(path: string, owner: Owner): void {
  if (owner.uid === root || !mayGive()) return
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    giveOpen(file, owner)
  } finally {
    closeSync(file)
  }
}

function giveOpen(file: number, { uid, gid }: Owner): void {
  fchownSync(file, uid, gid)
  fsyncSync(file)
}
