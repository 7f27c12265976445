import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from './repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const published = ['core', 'lmdb', 'client', 'server', 'cli']

/** A program of a user that takes something of each entry. */
const program = `
import { createIngest, IngestError, openMemoryStore } from '@ingest/core'
import type { BatchResult, EmbeddedIngest, Ingest } from '@ingest/core'
import { openLmdbStore, type LmdbStoreOptions } from '@ingest/lmdb'
import { ingestChecks, storeChecks } from '@ingest/core/testing'
import { createClient, createSender, type Client, type Sender } from '@ingest/client'
import { createHandler, serve, toFetchHandler } from '@ingest/server'

const options: LmdbStoreOptions = { create: false, onRebuild: (progress) => console.log(progress) }
export const embedded = createIngest({ store: await openLmdbStore('data', options) })
export const inMemory: EmbeddedIngest = createIngest({ store: openMemoryStore() })
export const handlers = [createHandler(embedded), toFetchHandler(embedded), serve({ ingest: embedded })]
export const checks = [ingestChecks, storeChecks]

export const client: Client = createClient({
  url: process.env.INGEST_URL,
  projectId: process.env.INGEST_PROJECT,
  key: process.env.INGEST_KEY,
})
export const sender: Sender = createSender(client, { spool: process.env.INGEST_SPOOL })
export const same: Ingest[] = [embedded.project('p'), client]
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
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const filters = published.flatMap((name) => ['--filter', `./packages/${name}`])
  const pack = ['--yes', '--prefer-offline', packageManager, '--recursive', ...filters, 'pack']
  await run('npx', [...pack, '--pack-destination', directory], { cwd: root, shell: process.platform === 'win32' })
  for (const name of published) {
    const source = join(root, 'packages', name)
    const { version, dependencies = {} } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
    await run('tar', ['-xzf', `ingest-${name}-${version}.tgz`], { cwd: directory })
    renameSync(join(directory, 'package'), join(modules, '@ingest', name))
    for (const dependency of Object.keys(dependencies)) {
      if (dependency.startsWith('@ingest/')) continue
      symlinkSync(realpathSync(join(source, 'node_modules', dependency)), join(modules, dependency), 'junction')
    }
  }
  symlinkSync(realpathSync(join(root, 'node_modules/@types/node')), join(modules, '@types/node'), 'junction')
}

/** In a process of its own, without what the test runner puts around Node. */
async function compile(directory: string, options: object): Promise<string> {
  const compilerOptions = {
    ...options,
    target: 'es2022',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    // of the compiler itself
    skipDefaultLibCheck: true,
    noEmit: true,
    listFiles: true,
  }
  const config = join(directory, 'tsconfig.json')
  writeFileSync(config, JSON.stringify({ compilerOptions, files: ['program.ts'] }))
  const { NODE_OPTIONS: _, ...env } = process.env
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, '-p', config], { cwd: directory, env }).catch((error) => error)
  return stdout
}

const directory = t.testdir({ 'package.json': '{"type":"module"}', 'program.ts': program })
t.before(() => install(directory))

t.test('a package ships its sources in the source maps, and no other copy', async (t) => {
  const shipped = published.flatMap((name) => {
    const from = join(directory, 'node_modules/@ingest', name)
    return readdirSync(from, { recursive: true, encoding: 'utf8' }).map((file) => join(from, file))
  })
  const maps = shipped.filter((file) => file.endsWith('.map'))
  t.not(maps.length, 0)
  for (const file of maps) {
    const { sources, sourcesContent } = JSON.parse(readFileSync(file, 'utf8'))
    t.equal(sourcesContent?.filter((content: unknown) => typeof content === 'string').length, sources.length, file)
  }
  t.strictSame(
    shipped.filter((file) => /(?<!\.d)\.ts$/.test(file)),
    [],
  )
})

t.test('a strict program compiles against the packed packages, without skipLibCheck', async (t) => {
  for (const options of [{ module: 'nodenext' }, { module: 'esnext', moduleResolution: 'bundler' }]) {
    const lines = (await compile(directory, options)).split('\n')
    t.strictSame(
      lines.filter((line) => /error TS/.test(line)),
      [],
    )
    t.ok(lines.some((line) => /open-lmdb-store\.d\.ts$/.test(line)))
    t.notOk(
      lines.find((line) => /node_modules\/lmdb\//.test(line)),
      'types of lmdb are needed',
    )
  }
})
