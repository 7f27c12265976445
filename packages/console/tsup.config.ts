import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { defineConfig, type Options } from 'tsup'

const common: Options = {
  format: 'esm',
  // `tsc -b` writes the declarations into the same folder
  clean: false,
  dts: false,
}

export default defineConfig([
  {
    ...common,
    entry: { index: 'src/index.ts' },
    target: 'node20',
    sourcemap: true,
    // else `node:http` becomes `http`
    removeNodeProtocol: false,
  },
  {
    ...common,
    entry: { app: 'page/main.tsx', worker: 'page/worker/worker.ts' },
    outDir: 'dist/page',
    platform: 'browser',
    target: 'es2022',
    noExternal: [/./],
    splitting: false,
    minify: true,
    esbuildOptions(options) {
      options.jsx = 'automatic'
      options.jsxImportSource = 'preact'
    },
    async onSuccess() {
      for (const name of ['index.html', 'icon.svg']) await copyFile(`page/${name}`, `dist/page/${name}`)
      await writeFile('dist/page/licenses.txt', await readLicenses(['preact']))
    },
  },
])

/** The notices that the licenses of bundled packages ask for. */
async function readLicenses(names: readonly string[]): Promise<string> {
  const { resolve } = createRequire(import.meta.url)
  const texts = names.map((name) => readFile(join(dirname(resolve(`${name}/package.json`)), 'LICENSE'), 'utf8'))
  return (await Promise.all(texts)).map((text, i) => `${names[i]}\n\n${text.trim()}\n`).join('\n\n')
}
