import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

// Packs every package that is not private, with the versions of its siblings in place of `workspace:`.
//
//   node scripts/pack.js              builds everything from scratch and packs into dist
//   node scripts/pack.js <directory>  packs what is built

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (/** @type {string} */ file) => JSON.parse(readFileSync(join(root, file), 'utf8'))
const published = readdirSync(join(root, 'packages')).filter((name) => !read(`packages/${name}/package.json`).private)
const destination = resolve(process.argv[2] ?? join(root, 'dist'))

if (process.argv[2] === undefined) {
  // a build leaves the chunks of earlier builds, which would be packed too
  for (const name of published) rmSync(join(root, 'packages', name, 'dist'), { recursive: true, force: true })
  rmSync(destination, { recursive: true, force: true })
  runPnpm(['run', 'build:all'])
}
mkdirSync(destination, { recursive: true })
const filters = published.flatMap((name) => ['--filter', `./packages/${name}`])
runPnpm(['--recursive', ...filters, 'pack', '--pack-destination', destination])
printHowToInstall()

/**
 * pnpm and yarn look up what tarballs depend on in the registry, unless it is overridden. Yarn also fails where npm and
 * pnpm do not: if an optional package lacks a release (msgpackr-extract).
 */
function printHowToInstall() {
  const entries = published.map((name) => {
    const { name: packageName, version } = read(`packages/${name}/package.json`)
    return [packageName, `file:${join(destination, `ingest-${name}-${version}.tgz`)}`]
  })
  const resolutions = [...entries, ['msgpackr-extract', '3.0.4']]
  const json = JSON.stringify(Object.fromEntries(resolutions), null, 2).replaceAll('\n', '\n  ')
  console.log(`npm
  npm install ${join(destination, '*.tgz')}

pnpm: in pnpm-workspace.yaml
  overrides:
${entries.map(([name, file]) => `    '${name}': ${file}`).join('\n')}
then
  pnpm add ${join(destination, '*.tgz')}

yarn: in package.json, with the @ingest packages that you use in "dependencies" too
  "resolutions": ${json}
then
  yarn install`)
}

/** @param {string[]} args */
function runPnpm(args) {
  execFileSync('npx', ['--yes', '--prefer-offline', read('package.json').packageManager, ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
}
