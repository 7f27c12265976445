import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

// Compiles the scanner into src/submit/scanner-wasm.ts, if its sources have changed: `node assembly/build.js`.

const packageDirectory = fileURLToPath(new URL('..', import.meta.url))
export const outFile = join(packageDirectory, 'src/submit/scanner-wasm.ts')

const options = [
  ...['-O3', '--noAssert', '--runtime', 'stub', '--use', 'abort=', '--enable', 'simd'],
  // pages of 64 KiB: one for the tables, four for the largest body, one for reads past its end
  ...['--initialMemory', '6', '--maximumMemory', '6'],
]

/** The SHA-256 of the sources, which saves compiling unchanged ones: that takes seconds. */
function digestSources() {
  const assembly = readdirSync(join(packageDirectory, 'assembly')).sort()
  const hash = createHash('sha256')
  for (const file of [
    ...assembly.map((name) => `assembly/${name}`),
    'src/json/bytes.ts',
    'src/events/known-fields.ts',
  ]) {
    hash.update(readFileSync(join(packageDirectory, file)))
  }
  return hash.digest('hex')
}

/** The rules of src/events/known-fields.ts, which are TypeScript: Node 20 cannot import them. */
async function loadKnownFields() {
  const source = readFileSync(join(packageDirectory, 'src/events/known-fields.ts'), 'utf8')
  const { outputText } = ts.transpileModule(source, { compilerOptions: { module: ts.ModuleKind.ESNext } })
  /** @type {typeof import('../src/events/known-fields.ts')} */
  const { eventIdBytesMax, knownFields } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`)
  return { eventIdBytesMax, knownFields }
}

/**
 * The AssemblyScript module `known-fields.ts`: a bit for each field, the field of a key, and the limits of the texts.
 *
 * @param {Awaited<ReturnType<typeof loadKnownFields>>} rules
 */
function writeKnownFields({ eventIdBytesMax, knownFields }) {
  const bits = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]
  const named = knownFields.filter(({ text }) => text === 'name')
  /** @type {Map<string, string[]>} the fields of one rule, which are compiled once */
  const texts = new Map()
  for (const { name, text, bytesMin, bytesMax, integerMin } of knownFields) {
    // an event with a field of another rule is left to parseBatch
    if (text !== 'any' || (integerMin !== undefined && integerMin >= 0)) continue
    const rule = `endOfText(at, ${bytesMin}, ${bytesMax}, ${integerMin !== undefined})`
    texts.set(rule, [...(texts.get(rule) ?? []), name])
  }
  return [
    "import { endOfText } from './value.ts'",
    ...bits.map((name, index) => `export const ${name}: u32 = ${2 ** index}`),
    `export const eventIdBytesMax: usize = ${eventIdBytesMax}`,
    ...named.flatMap(({ name, bytesMin, bytesMax }) => [
      `export const ${name}BytesMin: usize = ${bytesMin}`,
      `export const ${name}BytesMax: usize = ${bytesMax}`,
    ]),
    '/** The field of the key at `at`, its quote included; 0 for an unknown key. */',
    'export function fieldAt(at: usize): u32 {',
    ...bits.map((name) => `  if (${isKeyAt(name)}) return ${name}`),
    '  return 0',
    '}',
    '@inline',
    'export function endOfTextField(at: usize, field: u32): usize {',
    ...[...texts].map(([rule, names]) => `  if ((field & (${names.join(' | ')})) !== 0) return ${rule}`),
    '  return 0',
    '}',
  ].join('\n')
}

/**
 * Compares the key and its closing quote in words of eight bytes.
 *
 * @param {string} name
 */
function isKeyAt(name) {
  const key = Buffer.from(`${name}"`)
  const words = []
  for (let start = 0; start < key.length; start += 8) {
    const bytes = key.subarray(start, start + 8)
    const value = `0x${Buffer.from(bytes).reverse().toString('hex')}`
    const word = `load<u64>(at + ${start + 1})`
    words.push(bytes.length === 8 ? `${word} === ${value}` : `(${word} & 0x${'ff'.repeat(bytes.length)}) === ${value}`)
  }
  return words.join(' && ')
}

/** The content of {@link outFile}. @returns {Promise<string>} */
export async function compileScanner() {
  const { default: asc } = await import('assemblyscript/asc')
  /** @type {Uint8Array | undefined} */
  let binary
  const knownFields = writeKnownFields(await loadKnownFields())
  const { error, stderr } = await asc.main(
    ['assembly/scanner.ts', '--baseDir', packageDirectory, '--outFile', 'scanner.wasm', ...options],
    {
      readFile(name) {
        if (name === 'assembly/known-fields.ts') return knownFields
        const path = join(packageDirectory, name)
        return existsSync(path) ? readFileSync(path, 'utf8') : null
      },
      writeFile(_, contents) {
        if (typeof contents !== 'string') binary = contents
      },
    },
  )
  if (error || !binary) throw new Error(`AssemblyScript failed:\n${stderr}`)
  return `// ../../assembly as WebAssembly in base64, by \`node assembly/build.js\`. SHA-256 of the sources:
// ${digestSources()}

export const scannerWasm: string =
  '${Buffer.from(binary).toString('base64')}'
`
}

if (process.argv[1] === fileURLToPath(import.meta.url) && !readFileSync(outFile, 'utf8').includes(digestSources())) {
  writeFileSync(outFile, await compileScanner())
}
