import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { listPublished, readManifest, root } from './published.js'

// Packs every package that is not private, with the versions of its siblings in place of `workspace:`.
//
//   node scripts/pack.js              builds everything from scratch and packs into dist
//   node scripts/pack.js <directory>  packs what is built

const published = listPublished()
const destination = resolve(process.argv[2] ?? join(root, 'dist'))

if (process.argv[2] === undefined) {
  // a build leaves the chunks of earlier builds, which would be packed too
  for (const { directory } of published)
    rmSync(join(root, 'packages', directory, 'dist'), { recursive: true, force: true })
  rmSync(destination, { recursive: true, force: true })
  runPnpm(['run', 'build:all'])
}
mkdirSync(destination, { recursive: true })
const filters = published.flatMap(({ name }) => ['--filter', name])
runPnpm(['--recursive', ...filters, 'pack', '--pack-destination', destination])

/** @param {string[]} args */
function runPnpm(args) {
  const { status, stdout } = spawnSync(
    'npx',
    ['--yes', '--prefer-offline', readManifest('.').packageManager, ...args],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
      stdio: ['ignore', 'pipe', 'inherit'],
      shell: process.platform === 'win32',
    },
  )
  if (status === 0) return
  // pnpm prints errors there
  console.error(stdout)
  process.exit(1)
}
