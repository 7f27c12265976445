import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeDiskBytes } from '@ingest/bench/disk-bytes'

/** A server may still report a full disk for so long. */
const recoveryMs = 15_000

const metadataBytes = 2 ** 20

/**
 * A file system of its own for the store, which a ballast file fills. Needs Linux, root and loop devices.
 *
 * @param {string} directory @param {number} bytes @throws {Error} without the means
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
    /** Where it is mounted. */
    directory: mounted,
    /** @param {number} leftBytes */
    fill(leftBytes) {
      isFull = true
      // some of what is free is for the file system itself
      for (let size = freeDiskBytes(mounted) - leftBytes; size > 0; size -= metadataBytes) {
        if (spawnSync('fallocate', ['-l', String(size), ballast]).status === 0) return
      }
    },
    empty() {
      rmSync(ballast, { force: true })
      isFull = false
      emptiedAt = Date.now()
    },
    /** Whether it is full, or was so a moment ago. */
    wasFull: () => isFull || Date.now() - emptiedAt < recoveryMs,
    unmount: () => runTool('umount', ['-l', mounted]),
  }
}

/** @param {string} name @param {string[]} args */
function runTool(name, args) {
  execFileSync(name, args, { stdio: ['ignore', 'ignore', 'pipe'] })
}
