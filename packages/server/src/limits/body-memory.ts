import { IngestError } from '@ingest/core'

/** The most bytes of unfinished bodies: of all projects together, and of one project. */
export const bodyMemoryLimits = { max: 256 * 1024 * 1024, projectMax: 64 * 1024 * 1024 } as const

/** Bounds the memory of bodies while they are received. */
export interface BodyMemory {
  /** Begins with a body. `add` throws `overloaded` for bytes above a limit, and `release` frees all of them. */
  hold(projectId: string): { add(bytes: number): void; release(): void }
}

export function createBodyMemory({ max, projectMax } = bodyMemoryLimits): BodyMemory {
  const heldByProject = new Map<string, number>()
  let held = 0

  function change(projectId: string, bytes: number): void {
    held += bytes
    const own = (heldByProject.get(projectId) ?? 0) + bytes
    if (own === 0) heldByProject.delete(projectId)
    else heldByProject.set(projectId, own)
  }

  return {
    hold(projectId) {
      let size = 0
      return {
        add(bytes) {
          if (held + bytes > max || (heldByProject.get(projectId) ?? 0) + bytes > projectMax) {
            throw new IngestError('overloaded', 'Too many unfinished uploads in flight: try again later.', {
              retryAfterSeconds: 1,
            })
          }
          size += bytes
          change(projectId, bytes)
        },
        release() {
          change(projectId, -size)
          size = 0
        },
      }
    },
  }
}
