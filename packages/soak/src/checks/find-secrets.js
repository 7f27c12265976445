import { closeSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { secretPrefix } from '../load/batch-content.js'

const blockBytes = 2 ** 24
/** Longer than any secret, which may span two blocks. */
const overlapBytes = 64

/**
 * Searches the files of a directory for bytes of players' events. Returns the players found, with the paths of the files.
 *
 * @param {string} directory
 * @returns {Map<number, Set<string>>}
 */
export function findSecrets(directory) {
  /** @type {Map<number, Set<string>>} */
  const found = new Map()
  const block = Buffer.alloc(blockBytes)
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath ?? entry.path, entry.name)
    const file = openSync(path, 'r')
    let kept = 0
    for (;;) {
      const read = readSync(file, block, kept, blockBytes - kept, null)
      if (read === 0) break
      const length = kept + read
      search(block.subarray(0, length), path)
      kept = Math.min(overlapBytes, length)
      block.copyWithin(0, length - kept, length)
    }
    closeSync(file)
  }

  /** @param {Buffer} bytes @param {string} path */
  function search(bytes, path) {
    for (let at = bytes.indexOf(secretPrefix); at !== -1; at = bytes.indexOf(secretPrefix, at + 1)) {
      const from = at + secretPrefix.length
      const player = /^(-?\d+)\./.exec(bytes.toString('latin1', from, from + 20))?.[1]
      if (player === undefined) continue
      const paths = found.get(Number(player)) ?? new Set()
      found.set(Number(player), paths.add(path))
    }
  }

  return found
}
