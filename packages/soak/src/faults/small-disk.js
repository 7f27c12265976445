import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeDiskBytes } from '@ingest/bench/disk-bytes'

/** How long a server may report a full disk after there is space again. */
const recoveryMs = 15_000

const metadataBytes = 2 ** 20

/**
 * Mounts a small file system for the store, which a ballast file fills. Needs Linux, root and loop devices.
 *
 * @param {string} directory @param {number} bytes @throws {Error} if the machine lacks one of them
 */
export function mountSmallDisk(directory, bytes) {
  const image = join(directory, 'disk.img')
  const mounted = join(directory, 'disk')
  const ballast = join(mounted, 'ballast')
  mkdirSync(mounted)
  writeFileSync(image, '')
  truncateSync(image, bytes)
  try {
    runTool('mkfs.ext4', ['-q', '-F', '-m', '0', image])
    runTool('mount', ['-o', 'loop', image, mounted])
  } catch (error) {
    rmSync(image)
    throw error
  }
  let isFull = false
  let emptiedAt = -Infinity
  return {
    /** The mount point. */
    directory: mounted,
    /** @param {number} leftBytes */
    fill(leftBytes) {
      isFull = true
      // the file system itself needs some of the free space
      for (let size = freeDiskBytes(mounted) - leftBytes; size > 0; size -= metadataBytes) {
        if (spawnSync('fallocate', ['-l', String(size), ballast]).status === 0) return
      }
    },
    empty() {
      rmSync(ballast, { force: true })
      isFull = false
      emptiedAt = Date.now()
    },
    /** Whether the disk is full, or was until a moment ago. */
    wasFull: () => isFull || Date.now() - emptiedAt < recoveryMs,
    unmount: () => runTool('umount', ['-l', mounted]),
  }
}

/** @param {string} name @param {string[]} args */
function runTool(name, args) {
  execFileSync(name, args, { stdio: ['ignore', 'ignore', 'pipe'] })
}
