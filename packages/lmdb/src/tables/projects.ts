import { IngestError, type Project } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'

/**
 * Projects by id, and the number that identifies each in the other tables. The number is in two tables, which must agree:
 * a damaged one is that of another project.
 */
export interface Projects {
  /**
   * The number of a project; undefined if it has stored nothing.
   *
   * @throws {IngestError} `store-damaged`
   */
  numberOf(projectId: string): number | undefined
  /**
   * The number of a project, assigned at its first use. Only inside a write transaction.
   *
   * @throws {IngestError} `store-damaged`
   */
  numberFor(projectId: string): number
  /** The stored project, frozen. */
  get(projectId: string): Project | undefined
  /** Differs between any two states of a project. */
  version(projectId: string): string
  /** The projects that have a number, in the order of their bytes. */
  ids(): string[]
  /** Only inside a write transaction. */
  put(project: Project): void
}

/** An entry is the number, 4 bytes big-endian, then the project as JSON, or nothing for a project with events only. */
const numberBytes = 4

export function openProjects(table: (name: string) => Rows): Projects {
  const entries = table('projects')
  const numbers = table('project-numbers')
  const parsed = createParsedProjects()

  function entryOf(projectId: string): Buffer | undefined {
    return entries.getBinary(Buffer.from(projectId))
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

  function numberFor(projectId: string): number {
    const known = numberOf(projectId)
    if (known !== undefined) return known
    checkNew(projectId)
    const [last] = [...numbers.getKeys({ reverse: true, limit: 1 })]
    const number = (last?.readUInt32BE() ?? 0) + 1
    numbers.put(projectKey(number), Buffer.from(projectId))
    entries.put(Buffer.from(projectId), projectKey(number))
    return number
  }

  return {
    numberOf,
    numberFor,
    get(projectId) {
      const entry = entryOf(projectId)
      return entry && entry.length > numberBytes ? parsed.get(projectId, entry) : undefined
    },
    version: (projectId) => entryOf(projectId)?.toString('utf8', numberBytes) ?? '',
    ids: () => Array.from(entries.getKeys({}), String),
    put(project) {
      const entry = projectKey(numberFor(project.projectId), Buffer.from(JSON.stringify(project)))
      entries.put(Buffer.from(project.projectId), entry)
    },
  }
}

/** Without the id, as it may be that of another tenant. */
function damagedProject(): IngestError {
  return new IngestError(
    'store-damaged',
    'The number of a project is damaged: save the store with `ingest repair`, or restore a backup.',
  )
}

/** Limits of the cache of parsed projects: their number, and the bytes of their entries. */
const parsedProjectsMax = 4096
const parsedBytesMax = 4 * 2 ** 20

/** A cache of parsed projects, for authentication. Ids of projects that do not exist take no memory. */
export function createParsedProjects(projectsMax = parsedProjectsMax, bytesMax = parsedBytesMax) {
  const parsed = new Map<string, { entry: Buffer; project: Project }>()
  let bytes = 0

  function remove(projectId: string): void {
    bytes -= parsed.get(projectId)?.entry.length ?? 0
    parsed.delete(projectId)
  }

  return {
    /** Returns the project of an entry, parsed again only if any process has changed its bytes. */
    get(projectId: string, entry: Buffer): Project {
      const known = parsed.get(projectId)
      if (known?.entry.equals(entry)) return known.project
      // frozen, as later requests are authenticated with it
      const project = JSON.parse(entry.toString('utf8', numberBytes), (_, value) => Object.freeze(value))
      remove(projectId)
      if (entry.length > bytesMax) return project
      parsed.set(projectId, { entry, project })
      bytes += entry.length
      for (const oldest of parsed.keys()) {
        if (parsed.size <= projectsMax && bytes <= bytesMax) break
        remove(oldest)
      }
      return project
    },
  }
}
