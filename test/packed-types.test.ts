import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import ts from 'typescript'
import { root } from './repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const published = ['core', 'client', 'server', 'cli']

/** A program of a user that takes something of each entry. */
const program = `
import { createIngest, IngestError, openMemoryStore, type BatchResult, type Ingest } from '@ingest/core'
import { openLmdbStore, type LmdbStoreOptions } from '@ingest/core/lmdb'
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

t.test('a strict program compiles against the packed packages, without skipLibCheck', async (t) => {
  const directory = t.testdir({ 'package.json': '{"type":"module"}' })
  await install(directory)
  const file = join(directory, 'program.ts')
  writeFileSync(file, program)
  for (const modules of [
    { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
    { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
  ]) {
    const compiled = ts.createProgram([file], {
      ...modules,
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
    })
    // what the types of Node are made of is not ours to check, and takes most of the time
    const checked = compiled.getSourceFiles().filter(({ fileName }) => !/@types\/node|undici-types/.test(fileName))
    const found = [compiled.getOptionsDiagnostics(), ...checked.map((file) => ts.getPreEmitDiagnostics(compiled, file))]
    const problems = found.flat().map(({ file, messageText }) => {
      const where = file?.fileName.split('node_modules/').at(-1)
      return `${where}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
    })
    t.strictSame(problems, [])
    const foreign = compiled.getSourceFiles().filter(({ fileName }) => /node_modules\/lmdb\//.test(fileName))
    t.strictSame(foreign, [], 'no types of lmdb are needed')
  }
})
