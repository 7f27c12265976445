import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { listPublished } from '../../scripts/published.js'
import { root } from '../repository.ts'

t.setTimeout(600_000)

const run = promisify(execFile)
const published = listPublished()

/** A program of a user that takes something of each entry. */
const program = `
import { createIngest, IngestError, openMemoryStore, type BatchResult, type Ingest } from '@ingest/core'
import { ingestChecks, storeChecks } from '@ingest/checks'
import { runConformance, startCommand, type Verdict } from '@ingest/checks/sender'
import { openLmdbStore, type LmdbStoreOptions } from '@ingest/lmdb'
import { openPostgresStore, type PostgresStoreOptions } from '@ingest/postgres'
import { createClient, createSender, type Client, type Sender } from '@ingest/client'
import { exportFiles, ndjson, type FileFormat } from '@ingest/export'
import { parquet } from '@ingest/export/parquet'
import { createHandler, serve, toFetchHandler } from '@ingest/server'
import { createConsole, type ConsoleHandler } from '@ingest/console'

const options: LmdbStoreOptions = { create: false, onRebuild: (progress) => globalThis.console.log(progress) }
export const embedded = createIngest({ store: await openLmdbStore('data', options) })
const onOpen: PostgresStoreOptions['onOpen'] = (report) => globalThis.console.log(report.survivesPrimaryLoss)
export const shared = openPostgresStore({ host: 'db', max: 5 }, { onOpen })
export const inMemory: Ingest = createIngest({ store: openMemoryStore() }).project('p')
export const console: ConsoleHandler = createConsole()
export const handlers = [createHandler(embedded, { console }), toFetchHandler(embedded, { console }), serve({ ingest: embedded, console })]
export const checks = [ingestChecks, storeChecks]
export const verdicts: Promise<Verdict[]> = runConformance({ start: startCommand('python3', ['my_sender.py']) })

export const client: Client = createClient({
  url: process.env.INGEST_URL,
  projectId: process.env.INGEST_PROJECT_ID,
  key: process.env.INGEST_KEY,
})
export const sender: Sender = createSender(client, { spool: process.env.INGEST_SPOOL })
export const same: Ingest[] = [inMemory, embedded.project('p'), client]
export const formats: FileFormat[] = [ndjson({ gzip: true }), parquet()]
export const exported = same.map((ingest) => exportFiles(ingest, { directory: 'export', type: 'round.end' }))
export const result: Promise<BatchResult> = client.submitBatch({ events: [] })
export const status = (error: IngestError): number | undefined => error.status
// @ts-expect-error a key is no number
createClient({ url: '', projectId: '', key: 1 })
`

/** A program of a user in CommonJS. */
const commonProgram = `
import { createIngest, openMemoryStore, type Ingest } from '@ingest/core'
import client = require('@ingest/client')

export const inMemory: Ingest = createIngest({ store: openMemoryStore() }).project('p')
export const { createClient } = client
`

/** Appends events to the directory `data` until it has 50, and prints how many of them it has stored. */
const appending = `
const { createIngest } = require('@ingest/core')
const { openLmdbStore } = require('@ingest/lmdb')

openLmdbStore(process.argv[2]).then(async (store) => {
  const ingest = createIngest({ store })
  let stored = 0
  for (let i = 0; i < 50; i++) {
    const { accepted } = await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-' + i }] })
    stored += accepted
  }
  await ingest.close()
  console.log(stored)
})
`

/** A registry on a free port, without the packages of others. */
const registry = `
const { runServer } = require('verdaccio')

runServer({
  self_path: __dirname,
  storage: 'storage',
  uplinks: {},
  packages: { '**': { access: '$anonymous', publish: '$anonymous' } },
  max_body_size: '50mb',
  log: { type: 'stdout', level: 'fatal' },
  web: { enable: false },
}).then((server) => server.listen(0, '127.0.0.1', () => console.log('listening on ' + server.address().port)))
`

const { NODE_OPTIONS: _, ...env } = process.env

/** Runs npm in a directory, whose `.npmrc` it reads. */
function npm(directory: string, ...args: string[]) {
  return run('npm', args, { cwd: directory, env, shell: process.platform === 'win32' })
}

/** Starts a registry for the packages of this repository; their dependencies come from npm's configured registry. */
async function startRegistry(t: Test, directory: string): Promise<string> {
  // Verdaccio depends on a dist-tag of it
  const manifest = { private: true, dependencies: { verdaccio: '6.5.0' }, overrides: { 'node-fetch': '2.7.0' } }
  writeFileSync(join(directory, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(directory, 'registry.cjs'), registry)
  await npm(directory, 'install', '--ignore-scripts', '--prefer-offline')
  const server = spawn(process.execPath, ['registry.cjs'], {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => server.kill())
  for await (const line of createInterface(server.stdout)) {
    const [, port] = /^listening on (\d+)$/.exec(line) ?? []
    if (port !== undefined) return `http://127.0.0.1:${port}/`
  }
  throw new Error('the registry does not listen')
}

/** Publishes the packages, and prints what the release prints. */
async function publish(directory: string, tarballs: string, url: string): Promise<string> {
  const args = [join(root, 'scripts/publish.js'), tarballs, '--registry', url]
  return (await run(process.execPath, args, { cwd: directory, env })).stdout
}

/** Files that both compilations read: parsing them costs most of the time. */
const parsed = new Map<string, ts.SourceFile | undefined>()

function compile(programs: string[], options: ts.CompilerOptions): { errors: string[]; files: string[] } {
  const compilerOptions: ts.CompilerOptions = {
    ...options,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts'],
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    // of the compiler itself
    skipDefaultLibCheck: true,
    noEmit: true,
  }
  const host = ts.createCompilerHost(compilerOptions)
  const { getSourceFile } = host
  host.getSourceFile = (file, ...rest) => {
    // what a package's own files are, modules or scripts, is the same for both
    if (!parsed.has(file)) parsed.set(file, getSourceFile(file, ...rest))
    return parsed.get(file)
  }
  const compiled = ts.createProgram(programs, compilerOptions, host)
  return {
    errors: ts
      .getPreEmitDiagnostics(compiled)
      .map(({ messageText, file }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`),
    files: compiled.getSourceFiles().map(({ fileName }) => fileName),
  }
}

t.test('the packages, published to a registry and installed from it', async (t) => {
  const directory = t.testdir({
    registry: {},
    tarballs: {},
    'package.json': '{"type":"module"}',
    'program.ts': program,
    'common.cts': commonProgram,
    'appending.cjs': appending,
  })
  await run(process.execPath, [join(root, 'scripts/pack.js'), join(directory, 'tarballs')])
  const url = await startRegistry(t, join(directory, 'registry'))
  const scope = published[0]?.name.split('/')[0]
  const npmrc = [`${scope}:registry=${url}`, `${url.replace('http:', '')}:_authToken=any`]
  writeFileSync(join(directory, '.npmrc'), npmrc.join('\n'))

  const printed = await publish(directory, join(directory, 'tarballs'), url)
  const names = published.map(({ name }) => name)
  t.strictSame(
    Array.from(printed.matchAll(/^\+ (.+)@/gm), ([, name]) => name),
    names,
    'each after what it depends on',
  )
  const again = await publish(directory, join(directory, 'tarballs'), url)
  t.equal(again.match(/ is published already$/gm)?.length, names.length, 'a release that was interrupted is completed')
  await npm(directory, 'install', '--prefer-offline', ...names)

  t.test('a strict program compiles against them, without skipLibCheck', async (t) => {
    const { NodeNext, ESNext } = ts.ModuleKind
    for (const [programs, options] of [
      [['program.ts', 'common.cts'], { module: NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext }],
      [['program.ts'], { module: ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }],
    ] as const) {
      const { errors, files } = compile(
        programs.map((each) => join(directory, each)),
        { ...options, typeRoots: [join(directory, 'node_modules/@types')] },
      )
      t.strictSame(errors, [])
      t.ok(files.some((file) => /open-lmdb-store\.d\.ts$/.test(file)))
      t.notOk(
        files.find((file) => /node_modules\/lmdb\//.test(file)),
        'types of lmdb are needed',
      )
    }
  })

  t.test('every entry of their manifests is a file', async (t) => {
    for (const { name } of published) {
      const from = join(directory, 'node_modules', name)
      const { exports = {}, bin = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'))
      const entries = pathsIn([exports, bin])
      t.not(entries.length, 0)
      for (const path of entries) t.ok(existsSync(join(from, path)), `${name}: ${path}`)
    }
  })

  t.test('their sources are in their source maps, and nowhere else', async (t) => {
    const shipped = published.flatMap(({ name }) => {
      const from = join(directory, 'node_modules', name)
      return readdirSync(from, { recursive: true, encoding: 'utf8' }).map((file) => join(from, file))
    })
    const maps = shipped.filter((file) => file.endsWith('.map'))
    t.not(maps.length, 0)
    for (const file of maps) {
      const { sources, sourcesContent = [] } = JSON.parse(readFileSync(file, 'utf8'))
      t.equal(sourcesContent.filter((content: unknown) => typeof content === 'string').length, sources.length, file)
    }
    t.strictSame(
      shipped.filter((file) => /(?<!\.d)\.ts$/.test(file)),
      [],
    )
  })

  t.test('npx runs the one command of the package, under its name', async (t) => {
    const { stdout } = await npm(directory, 'exec', '--', '@ingest/cli', '--version')
    t.equal(stdout.trim(), published[0]?.version)
  })

  t.test('processes of two patch versions use one directory', async (t) => {
    const newer = join(directory, 'newer')
    cpSync(join(directory, 'node_modules'), join(newer, 'node_modules'), { recursive: true, verbatimSymlinks: true })
    for (const name of ['@ingest/core', '@ingest/lmdb']) {
      const manifest = join(newer, 'node_modules', name, 'package.json')
      const { version, ...rest } = JSON.parse(readFileSync(manifest, 'utf8'))
      writeFileSync(
        manifest,
        JSON.stringify({ version: version.replace(/\d+$/, (n: string) => Number(n) + 1), ...rest }),
      )
    }
    cpSync(join(directory, 'appending.cjs'), join(newer, 'appending.cjs'))
    const store = join(directory, 'both')
    const stored = await Promise.all(
      [directory, newer, directory, newer].map(async (cwd) => {
        return Number((await run(process.execPath, ['appending.cjs', store], { cwd, env })).stdout)
      }),
    )
    t.equal(
      stored.reduce((sum, each) => sum + each),
      50,
      'each event was stored once',
    )
  })

  t.test('a bundle of a program runs with the packages outside of it', async (t) => {
    // the bundler that tsup runs
    const esbuild = createRequire(createRequire(import.meta.url).resolve('tsup'))('esbuild')
    const outfile = join(directory, 'bundle.cjs')
    await esbuild.build({
      entryPoints: [join(directory, 'appending.cjs')],
      ...{ outfile, bundle: true, platform: 'node', packages: 'external' },
      // not that of this repository, which maps the packages to their sources
      tsconfigRaw: {},
    })
    const args = [outfile, join(directory, 'bundled')]
    t.equal((await run(process.execPath, args, { env })).stdout, '50\n')
  })

  t.test('the command of the package serves, with the files of the console', async (t) => {
    const ingest = join(directory, 'node_modules/@ingest/cli/bin/ingest.js')
    const at = ['--store', join(directory, 'data'), '--json']
    const { stdout: version } = await run(process.execPath, [ingest, '--version'])
    t.equal(version.trim(), JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')).version)
    const { stdout: created } = await run(process.execPath, [ingest, 'keys', 'create', '--project', 'p', ...at])
    const server = spawn(process.execPath, [ingest, 'serve', '--listen', '127.0.0.1:0', '--console', ...at], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    t.teardown(() => server.kill('SIGKILL'))
    const exit = once(server, 'exit')
    const [line] = await once(createInterface(server.stdout), 'line')
    const { url, console } = JSON.parse(line)
    const page = await (await fetch(console)).text()
    const files = Array.from(page.matchAll(/(?:src|href)="([^":]+)"/g), ([, file = '']) => file)
    t.not(files.length, 0)
    for (const file of files) t.equal((await fetch(`${console}${file}`)).status, 200, file)
    const response = await fetch(`${url}/v1/events/batch`, {
      method: 'POST',
      headers: {
        'X-Project-Id': 'p',
        'X-Ingestion-Key': JSON.parse(created).key,
        'Content-Type': 'application/json',
      },
      body: '{"events":[{"projectId":"p","eventId":"e-1"}]}',
    })
    t.strictSame(await response.json(), { accepted: 1, duplicates: 0, rejected: [] })
    server.kill()
    if (process.platform !== 'win32') t.strictSame(await exit, [0, null])
  })

  t.test('a client installs no native code', async (t) => {
    t.strictSame(installedWith(directory, '@ingest/client'), ['@ingest/client', '@ingest/core', 'typebox', 'undici'])
  })
})

function pathsIn(entry: unknown): string[] {
  return typeof entry === 'string' ? [entry] : Object.values(entry as object).flatMap(pathsIn)
}

/** The packages that installing one brings. */
function installedWith(directory: string, name: string): string[] {
  const manifest = join(directory, 'node_modules', name, 'package.json')
  const { dependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8'))
  return [...new Set([name, ...Object.keys(dependencies).flatMap((each) => installedWith(directory, each))])].sort()
}
