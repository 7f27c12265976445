import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** @param {string} path */
export const readManifest = (path) => JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'))

/** The packages that are not private, each after those that it depends on. */
export function listPublished() {
  const found = readdirSync(join(root, 'packages')).map((directory) => {
    const { name, version, private: isPrivate = false, dependencies = {} } = readManifest(`packages/${directory}`)
    const tarball = `${name.slice(1).replace('/', '-')}-${version}.tgz`
    return { directory, name, version, isPrivate, tarball, dependencies: Object.keys(dependencies) }
  })
  /** @type {Set<typeof found[number]>} */
  const ordered = new Set()
  const add = (/** @type {typeof found[number]} */ each) => {
    for (const other of found) if (each.dependencies.includes(other.name)) add(other)
    ordered.add(each)
  }
  for (const each of found) if (!each.isPrivate) add(each)
  return [...ordered]
}
