import { randomBytes } from 'node:crypto'
import { IngestError, type Project } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import type { ProjectNumbers } from '../log/snapshot-reader.ts'
import { type EntryTable, projectIdsIn } from './entry-tables.ts'

/**
 * Projects by id, and the number that identifies each in the other tables. The number is in two tables, which must
 * agree: a damaged number would be that of another project.
 */
export interface Projects extends EntryTable<Project>, ProjectNumbers {
  /**
   * The number of a project, assigned at its first use. Only inside a write transaction.
   *
   * @throws {IngestError} `store-damaged`
   */
  numberFor(projectId: string): number
  /** The stored project, frozen. */
  get(projectId: string): Project | undefined
}

/** An entry is the number, 4 bytes big-endian, then the project as JSON, or nothing for a project with events only. */
const numberBytes = 4
/** A version is random: two processes never write the same. */
const versionBytes = 16

export function openProjects(table: (name: TableName) => Rows): Projects {
  const entries = table('projects')
  const numbers = table('project-numbers')
  const versions = table('project-versions')
  const parsed = createParsedProjects()

  function entryOf(projectId: string): Buffer | undefined {
    return entries.getBinary(Buffer.from(projectId))
  }

  function read(projectId: string, version?: Buffer): Project | undefined {
    const entry = entryOf(projectId)
    return entry && entry.length > numberBytes ? parsed.get(projectId, entry, version) : undefined
  }

  function numberOf(projectId: string): number | undefined {
    const entry = entryOf(projectId)
    if (!entry) return undefined
    const number = entry.length < numberBytes ? 0 : entry.readUInt32BE()
    if (!numbers.getBinary(projectKey(number))?.equals(Buffer.from(projectId))) throw damagedProject()
    return number
  }

  /** Checks the entries on both sides: the entry of the project is one of these if its key is damaged. */
  function checkNew(projectId: string): void {
    for (const reverse of [false, true]) {
      for (const key of entries.getKeys({ start: Buffer.from(projectId), limit: 1, reverse })) numberOf(key.toString())
    }
  }

  function nextNumber(projectId: string): number {
    checkNew(projectId)
    const [last] = [...numbers.getKeys({ reverse: true, limit: 1 })]
    return (last?.readUInt32BE() ?? 0) + 1
  }

  function numberFor(projectId: string): number {
    const known = numberOf(projectId)
    if (known !== undefined) return known
    const number = nextNumber(projectId)
    numbers.put(projectKey(number), Buffer.from(projectId))
    entries.put(Buffer.from(projectId), projectKey(number))
    return number
  }

  return {
    numberOf,
    numberToBe: (projectId) => numberOf(projectId) ?? nextNumber(projectId),
    numberFor,
    get(projectId) {
      const version = versions.getBinary(Buffer.from(projectId))
      return (version && parsed.find(projectId, version)) ?? read(projectId, version)
    },
    json: (projectId) => entryOf(projectId)?.toString('utf8', numberBytes) ?? '',
    // all that have a number
    ids: (range) => projectIdsIn(entries, range),
    put(projectId, json) {
      const key = Buffer.from(projectId)
      entries.put(key, projectKey(numberFor(projectId), Buffer.from(json)))
      versions.put(key, randomBytes(versionBytes))
    },
  }
}

/** The message lacks the id, because it may be that of another tenant. */
function damagedProject(): IngestError {
  return new IngestError(
    'store-damaged',
    'The number of a project is damaged: save the store with `ingest repair`, or restore a backup.',
  )
}

/** Limits of the cache of parsed projects: their number, and the bytes of their entries. */
const parsedProjectsMax = 4096
const parsedBytesMax = 16 * 2 ** 20

interface ParsedProject {
  entry: Buffer
  version: Buffer | undefined
  project: Project
}

/** A cache of parsed projects, for authentication. Ids of projects that do not exist take no memory. */
export function createParsedProjects(projectsMax = parsedProjectsMax, bytesMax = parsedBytesMax) {
  const parsed = new Map<string, ParsedProject>()
  let bytes = 0

  function remove(projectId: string): void {
    bytes -= parsed.get(projectId)?.entry.length ?? 0
    parsed.delete(projectId)
  }

  return {
    /** The project of this version, if it is known. */
    find(projectId: string, version: Buffer): Project | undefined {
      const known = parsed.get(projectId)
      return known?.version?.equals(version) ? known.project : undefined
    },
    /** Returns the project of an entry, parsed again only if any process has changed its bytes. */
    get(projectId: string, entry: Buffer, version?: Buffer): Project {
      const known = parsed.get(projectId)
      if (known?.entry.equals(entry)) {
        known.version = version
        return known.project
      }
      const project = parseFrozen(entry.toString('utf8', numberBytes))
      remove(projectId)
      if (entry.length > bytesMax) return project
      parsed.set(projectId, { entry, version, project })
      bytes += entry.length
      for (const oldest of parsed.keys()) {
        if (parsed.size <= projectsMax && bytes <= bytesMax) break
        remove(oldest)
      }
      return project
    },
  }
}

/** Frozen, as later requests are authenticated with it. */
function parseFrozen(json: string): Project {
  const project: Project = JSON.parse(json)
  for (const key of project.keys) {
    Object.freeze(key.scopes)
    Object.freeze(key)
  }
  Object.freeze(project.keys)
  return Object.freeze(project)
}
