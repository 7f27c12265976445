import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeDiskBytes } from '../disk-bytes.js'

/**
 * A file system of its own for the store, which a ballast file fills. Needs Linux, root and loop devices.
 *
 * @typedef {object} SmallDisk
 * @property {string} directory where it is mounted
 * @property {(leftBytes: number) => void} fill
 * @property {() => void} empty
 * @property {() => boolean} wasFull whether it is full, or was so a moment ago
 * @property {() => void} unmount
 */

/** How long a server may go on to say that the disk is full. */
const recoveryMs = 15_000

const metadataBytes = 2 ** 20

/** @param {string} directory @param {number} bytes @returns {SmallDisk} @throws without the means */
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
    directory: mounted,
    fill(leftBytes) {
      isFull = true
      // some of what is free is for the file system itself
      for (let size = freeDiskBytes(mounted) - leftBytes; size > 0; size -= metadataBytes) {
        if (tryTool('fallocate', ['-l', String(size), ballast])) return
      }
    },
    empty() {
      rmSync(ballast, { force: true })
      isFull = false
      emptiedAt = Date.now()
    },
    wasFull: () => isFull || Date.now() - emptiedAt < recoveryMs,
    unmount: () => runTool('umount', ['-l', mounted]),
  }
}

/** @param {string} name @param {string[]} args */
function tryTool(name, args) {
  try {
    runTool(name, args)
    return true
  } catch {
    return false
  }
}

/** @param {string} name @param {string[]} args */
function runTool(name, args) {
  execFileSync(name, args, { stdio: ['ignore', 'ignore', 'pipe'] })
}
