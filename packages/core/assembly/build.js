import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import asc from 'assemblyscript/asc'

// Compiles the scanner into src/events/scanner-wasm.ts: `node assembly/build.js`.

const packageDirectory = fileURLToPath(new URL('..', import.meta.url))
const outFile = fileURLToPath(new URL('../src/events/scanner-wasm.ts', import.meta.url))

/** The module with the compiled scanner, as src/events/scanner-wasm.ts is to be. @returns {Promise<string>} */
export async function compileScanner() {
  /** @type {Uint8Array | undefined} */
  let binary
  const { error, stderr } = await asc.main(
    [
      'assembly/scanner.ts',
      ...['--baseDir', packageDirectory, '--outFile', 'scanner.wasm'],
      ...['-O3', '--noAssert', '--runtime', 'stub', '--use', 'abort=', '--enable', 'simd'],
      // 64 KiB, the largest body, and 64 KiB for what is read past it
      ...['--initialMemory', '6', '--maximumMemory', '6'],
    ],
    {
      writeFile(_, contents) {
        if (typeof contents !== 'string') binary = contents
      },
    },
  )
  if (error || !binary) throw new Error(`AssemblyScript failed:\n${stderr}`)
  return `// The scanner of ../../assembly, compiled by \`node assembly/build.js\`: a WebAssembly module as base64.

export const scannerWasm: string =
  '${Buffer.from(binary).toString('base64')}'
`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = await compileScanner()
  if (text !== readFileSync(outFile, 'utf8')) writeFileSync(outFile, text)
}
