import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Compiles the scanner into src/events/scanner-wasm.ts, if its sources have changed: `node assembly/build.js`.

const packageDirectory = fileURLToPath(new URL('..', import.meta.url))
export const outFile = join(packageDirectory, 'src/events/scanner-wasm.ts')

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
    'src/events/field-limits.ts',
  ]) {
    hash.update(readFileSync(join(packageDirectory, file)))
  }
  return hash.digest('hex')
}

/** The content of {@link outFile}. @returns {Promise<string>} */
export async function compileScanner() {
  const { default: asc } = await import('assemblyscript/asc')
  /** @type {Uint8Array | undefined} */
  let binary
  const { error, stderr } = await asc.main(
    ['assembly/scanner.ts', '--baseDir', packageDirectory, '--outFile', 'scanner.wasm', ...options],
    {
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
