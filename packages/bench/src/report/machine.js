import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'

/** @typedef {{ label: string, value: string }} Fact */

/**
 * The machine that the figures were measured on.
 *
 * @param {string} directory where the stores are
 * @returns {Fact[]}
 */
export function describeMachine(directory) {
  return [
    { label: 'processor', value: `${cpus()[0]?.model.trim() ?? 'unknown'}, ${cpus().length} cores` },
    { label: 'memory', value: `${(totalmem() / 2 ** 30).toFixed(1)} GiB` },
    { label: 'kernel', value: `${type()} ${release()}` },
    { label: 'file system', value: output('stat', ['-f', '-c', '%T', directory]) ?? 'unknown' },
    { label: 'Node', value: process.versions.node },
    { label: 'commit', value: commit() },
  ]
}

/** The version of a package. @param {string} manifest path of its package.json, relative to this directory @returns {string} */
export function versionOf(manifest) {
  try {
    return JSON.parse(readFileSync(new URL(manifest, import.meta.url), 'utf8')).version
  } catch {
    return 'not installed'
  }
}

function commit() {
  const hash = output('git', ['rev-parse', '--short=12', 'HEAD'])
  if (hash === undefined) return 'unknown'
  return output('git', ['status', '--porcelain', '--untracked-files=no']) === '' ? hash : `${hash}, with changes`
}

/** @param {string} command @param {string[]} args */
function output(command, args) {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
