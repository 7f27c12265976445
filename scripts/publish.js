import { spawnSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { listPublished, root } from './published.js'

// Publishes the tarballs of a directory, each package after those that it depends on. Versions that
// the registry has are skipped, so that a repeated run completes an interrupted release.
//
//   node scripts/publish.js [--registry <url>] [<directory>, by default dist]

const { values, positionals } = parseArgs({ allowPositionals: true, options: { registry: { type: 'string' } } })
const directory = resolve(positionals[0] ?? join(root, 'dist'))
const published = listPublished()
const scope = published[0]?.name.split('/')[0]
// a registry of the scope in an .npmrc takes precedence over --registry
const registry =
  values.registry === undefined ? [] : [`--registry=${values.registry}`, `--${scope}:registry=${values.registry}`]
// set in GitHub jobs with the permission `id-token: write`
const provenance = process.env.ACTIONS_ID_TOKEN_REQUEST_URL === undefined ? [] : ['--provenance']

for (const { name, version, tarball } of published) {
  if (isOnRegistry(`${name}@${version}`)) console.log(`${name}@${version} is published already`)
  else runNpm(['publish', join(directory, tarball), '--access', 'public', ...provenance])
}

/** @param {string} release */
function isOnRegistry(release) {
  const { status, stdout, stderr } = npm(['view', release, 'version', '--loglevel=error'], 'pipe')
  if (status !== 0 && !/\bE404\b/.test(stderr)) throw new Error(`npm cannot look up ${release}:\n${stderr}`)
  return status === 0 && stdout.trim() !== ''
}

/** @param {string[]} args */
function runNpm(args) {
  if (npm(args, 'inherit').status !== 0) process.exit(1)
}

/**
 * @param {string[]} args
 * @param {'pipe' | 'inherit'} output
 */
function npm(args, output) {
  return spawnSync('npm', [...args, ...registry], {
    encoding: 'utf8',
    stdio: ['inherit', output, output],
    shell: process.platform === 'win32',
  })
}
