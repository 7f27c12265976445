import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const directory = fileURLToPath(new URL('../peers/', import.meta.url))

/**
 * Installs the dependencies of the peers, once. They are outside the workspace, so that building and testing do not
 * install PostgreSQL.
 *
 * @param {(line: string) => void} log
 * @returns {string | undefined} why it cannot be done
 */
export function installPeers(log) {
  if (existsSync(`${directory}node_modules/.modules.yaml`)) return undefined
  log('installing the peers, which takes a moment the first time')
  const { packageManager } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))
  const { npm_config_call, npm_config_package, ...env } = process.env
  const { status, stdout, stderr, error } = spawnSync(
    'npx',
    ['--yes', '--prefer-offline', packageManager, 'install', '--frozen-lockfile'],
    { cwd: directory, env, encoding: 'utf8', shell: process.platform === 'win32' },
  )
  if (status === 0) return undefined
  const said = `${stdout ?? ''}${stderr ?? ''}`.trim().split('\n').slice(-3).join(' ')
  return `the peers cannot be installed: ${error?.message ?? said}`
}
