import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, renameSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import ts from 'typescript'
import { root } from '../repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const published = ['core', 'checks', 'lmdb', 'postgres', 'client', 'export', 'server', 'console', 'cli']

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

/** A project into which the packed packages are installed, with what they depend on beside them. */
async function install(directory: string): Promise<void> {
  const modules = join(directory, 'node_modules')
  mkdirSync(join(modules, '@ingest'), { recursive: true })
  mkdirSync(join(modules, '@types'))
  await run(process.execPath, [join(root, 'scripts/pack.js'), directory])
  for (const name of published) {
    const source = join(root, 'packages', name)
    const { version, dependencies = {} } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
    await run('tar', ['-xzf', `ingest-${name}-${version}.tgz`], { cwd: directory })
    renameSync(join(directory, 'package'), join(modules, '@ingest', name))
    for (const dependency of Object.keys(dependencies)) {
      if (dependency.startsWith('@ingest/')) continue
      const link = join(modules, dependency)
      mkdirSync(dirname(link), { recursive: true })
      if (!existsSync(link)) symlinkSync(realpathSync(join(source, 'node_modules', dependency)), link, 'junction')
    }
  }
  symlinkSync(realpathSync(join(root, 'node_modules/@types/node')), join(modules, '@types/node'), 'junction')
}

/** Files that both compilations read: parsing them costs most of the time. */
const parsed = new Map<string, ts.SourceFile | undefined>()

function compile(directory: string, options: ts.CompilerOptions): { errors: string[]; files: string[] } {
  const compilerOptions: ts.CompilerOptions = {
    ...options,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts'],
    types: ['node'],
    typeRoots: [join(directory, 'node_modules/@types')],
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
  const compiled = ts.createProgram([join(directory, 'program.ts')], compilerOptions, host)
  return {
    errors: ts
      .getPreEmitDiagnostics(compiled)
      .map(({ messageText, file }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`),
    files: compiled.getSourceFiles().map(({ fileName }) => fileName),
  }
}

t.test('the packed packages', async (t) => {
  const directory = t.testdir({ 'package.json': '{"type":"module"}', 'program.ts': program })
  await install(directory)

  t.test('a strict program compiles against them, without skipLibCheck', async (t) => {
    const { NodeNext, ESNext } = ts.ModuleKind
    for (const options of [
      { module: NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
      { module: ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
    ]) {
      const { errors, files } = compile(directory, options)
      t.strictSame(errors, [])
      t.ok(files.some((file) => /open-lmdb-store\.d\.ts$/.test(file)))
      t.notOk(
        files.find((file) => /node_modules\/lmdb\//.test(file)),
        'types of lmdb are needed',
      )
    }
  })

  t.test('every entry of their manifests is a file', async (t) => {
    for (const name of published) {
      const from = join(directory, 'node_modules/@ingest', name)
      const { exports = {}, bin = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'))
      const entries = pathsIn([exports, bin])
      t.not(entries.length, 0)
      for (const path of entries) t.ok(existsSync(join(from, path)), `${name}: ${path}`)
    }
  })

  t.test('their sources are in their source maps, and nowhere else', async (t) => {
    const shipped = published.flatMap((name) => {
      const from = join(directory, 'node_modules/@ingest', name)
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

  t.test('the command of the tarball serves, with the files of the console', async (t) => {
    const ingest = join(directory, 'node_modules/@ingest/cli/bin/ingest.js')
    const at = ['--store', join(directory, 'data'), '--json']
    const { stdout: version } = await run(process.execPath, [ingest, '--version'])
    t.equal(version.trim(), JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')).version)
    const { stdout: created } = await run(process.execPath, [ingest, 'keys', 'create', '--project', 'p', ...at])
    const server = spawn(process.execPath, [ingest, 'serve', '--listen', '127.0.0.1:0', '--console', ...at], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
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
