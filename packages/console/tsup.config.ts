import { readdirSync, rmSync } from 'node:fs'
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

const page: Options = {
  ...common,
  outDir: 'dist/page',
  platform: 'browser',
  target: 'es2022',
  noExternal: [/./],
  minify: true,
  esbuildOptions(options) {
    options.jsx = 'automatic'
    options.jsxImportSource = 'preact'
  },
}

// the names of files change with their content
rmSync(String(page.outDir), { recursive: true, force: true })

/** Puts all styles into the one file that the page names: a module that is loaded later brings none of its own. */
const oneStyleSheet: NonNullable<Options['esbuildPlugins']>[number] = {
  name: 'one-style-sheet',
  setup(build) {
    build.onResolve({ filter: /\.css$/ }, ({ kind, importer }) => {
      if (kind === 'import-rule') return undefined
      return { path: importer.endsWith('main.tsx') ? 'all' : 'none', namespace: 'styles' }
    })
    build.onLoad({ filter: /./, namespace: 'styles' }, async ({ path }) => {
      const names = path === 'all' ? readdirSync('page', { recursive: true, encoding: 'utf8' }) : []
      // the styles of views follow those of the page
      const sheets = ['app.css', ...names.filter((name) => name.endsWith('.css') && name !== 'app.css').sort()]
      const contents = sheets.map((name) => `@import './${name}';`).join('\n')
      return path === 'all' ? { contents, resolveDir: 'page', loader: 'css' } : { contents: '', loader: 'js' }
    })
  },
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
    ...page,
    entry: { app: 'page/main.tsx' },
    // each view is a file that is loaded when it is opened
    splitting: true,
    esbuildPlugins: [oneStyleSheet],
    async onSuccess() {
      for (const name of ['index.html', 'icon.svg']) await copyFile(`page/${name}`, `dist/page/${name}`)
      await writeFile('dist/page/licenses.txt', await readLicenses(['preact']))
    },
  },
  {
    ...page,
    entry: { worker: 'page/worker/worker.ts' },
    splitting: false,
  },
])

/** The notices that the licenses of bundled packages ask for. */
async function readLicenses(names: readonly string[]): Promise<string> {
  const { resolve } = createRequire(import.meta.url)
  const texts = names.map((name) => readFile(join(dirname(resolve(`${name}/package.json`)), 'LICENSE'), 'utf8'))
  return (await Promise.all(texts)).map((text, i) => `${names[i]}\n\n${text.trim()}\n`).join('\n\n')
}
