import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from './repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const published = ['core', 'client', 'server', 'cli']

/** A program of a user that takes something of each entry. */
const program = `
import { createIngest, IngestError, openMemoryStore, type BatchResult, type Ingest } from '@ingest/core'
import { openLmdbStore, type LmdbStoreOptions } from '@ingest/lmdb'
import { ingestChecks, storeChecks } from '@ingest/core/testing'
import { createClient, createSender, type Client, type Sender } from '@ingest/client'
import { createHandler, serve, toFetchHandler } from '@ingest/server'

const options: LmdbStoreOptions = { create: false, onRebuild: (progress) => console.log(progress) }
export const embedded = createIngest({ store: await openLmdbStore('data', options) })
export const inMemory: Ingest = createIngest({ store: openMemoryStore() })
export const handlers = [createHandler(embedded), toFetchHandler(embedded), serve({ ingest: embedded })]
export const checks = [ingestChecks, storeChecks]

export const client: Client = createClient({
  url: process.env.INGEST_URL,
  projectId: process.env.INGEST_PROJECT,
  key: process.env.INGEST_KEY,
})
export const sender: Sender = createSender(client, { spool: process.env.INGEST_SPOOL })
export const result: Promise<BatchResult> = client.submitBatch('p', { events: [] })
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

t.test('a strict program compiles against the packed packages, without skipLibCheck', async (t) => {
  const directory = t.testdir({ 'package.json': '{"type":"module"}', 'program.ts': program })
  await install(directory)
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
