// Kills and switches primaries of a real Patroni cluster under load, and prints figures. Takes 2 to 3 minutes.
//
//   apt-get install patroni etcd-server haproxy postgresql && node packages/postgres/test/failover/patroni.js
//
// Linux only. Without the packages, it prints what is missing and ends with exit code 0.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { compileTests } from '../../../../scripts/compile-tests.js'

const commands = ['patroni', 'etcd', 'haproxy']
const debianPostgres = '/usr/lib/postgresql'

const missing = [
  ...commands.filter((command) => !isInstalled(command)),
  ...(existsSync(debianPostgres) && readdirSync(debianPostgres).length > 0 ? [] : [debianPostgres]),
]
if (missing.length > 0) {
  console.log(`skipped: this machine has no ${missing.join(', ')}`)
} else {
  await compileTests()
  await import(new URL('../../../../.build/packages/postgres/test/failover/patroni-failover.js', import.meta.url).href)
}

/** @param {string} command */
function isInstalled(command) {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
