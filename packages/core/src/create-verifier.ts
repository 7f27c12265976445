import { createHash, type Hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isSameCut } from './decide-publication.ts'
import type { Issue } from './issue.ts'
import type { Digest, Manifest } from './map.ts'
import type { Store } from './store.ts'

/** Finds out whether the chunks of a manifest, one after another, are the whole that it says, with turns for others. */
export interface Verifier {
  /** Hashes what is there already, and goes on while chunks arrive, so that little is left to do after the last one. */
  begin(projectId: string, manifest: Manifest): void
  /** A chunk is there now. */
  arrived(projectId: string, digest: Digest): void
  /** What is wrong; nothing if the whole is what the manifest says, undefined when a chunk is not there any more. */
  verify(projectId: string, manifest: Manifest): Promise<Issue[] | undefined>
}

/** A manifest, and the hash of its first chunks, which stays right whatever becomes of them. */
interface Begun {
  projectId: string
  manifest: Manifest
  hash: Hash
  /** How many chunks are hashed. */
  hashed: number
  /** Resolves when all that was there is hashed, to what is wrong with it. */
  turn: Promise<Issue | undefined>
}

/** Of more manifests than these, none is begun before its last chunk is there. */
const begunMax = 16

/** A verifier of what is in a store. */
export function createVerifier(store: Store): Verifier {
  const begun = new Set<Begun>()

  function start(projectId: string, manifest: Manifest): Begun {
    return { projectId, manifest, hash: createHash('sha256'), hashed: 0, turn: Promise.resolve(undefined) }
  }

  function find(projectId: string, manifest: Manifest): Begun | undefined {
    return [...begun].find((each) => each.projectId === projectId && isSameCut(each.manifest, manifest))
  }

  async function hashOn(each: Begun): Promise<Issue | undefined> {
    const { projectId, manifest, hash } = each
    for (let chunk = manifest.chunks[each.hashed]; chunk; chunk = manifest.chunks[++each.hashed]) {
      const size = await store.chunk(projectId, chunk.digest, (bytes) => {
        hash.update(bytes)
        return bytes.length
      })
      if (size === undefined) return undefined
      if (size !== chunk.size) {
        const message = `Expected the size of the chunk, ${size}.`
        return { code: 'out_of_range', path: `/manifest/chunks/${each.hashed}/size`, message }
      }
      await nextTurn()
    }
    return undefined
  }

  function goOn(each: Begun): void {
    each.turn = each.turn.then((issue) => issue ?? hashOn(each))
    // what it fails with, it fails with again when somebody waits for it
    each.turn.catch(() => begun.delete(each))
  }

  return {
    begin(projectId, manifest) {
      if (find(projectId, manifest)) return
      const [oldest] = begun
      if (oldest && begun.size === begunMax) begun.delete(oldest)
      const each = start(projectId, manifest)
      begun.add(each)
      goOn(each)
    },

    arrived(projectId, digest) {
      for (const each of begun) {
        if (each.projectId === projectId && each.manifest.chunks[each.hashed]?.digest === digest) goOn(each)
      }
    },

    async verify(projectId, manifest) {
      const each = find(projectId, manifest) ?? start(projectId, manifest)
      // nobody else goes on with it
      begun.delete(each)
      goOn(each)
      const issue = await each.turn
      if (issue) return [issue]
      if (each.hashed < manifest.chunks.length) return undefined
      if (`sha256:${each.hash.digest('hex')}` === manifest.digest) return []
      const message = 'Expected the digest of all chunks together.'
      return [{ code: 'digest_mismatch', path: '/manifest/digest', message }]
    },
  }
}
