import { copyFile } from 'node:fs/promises'
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
    onSuccess: () => copyFile('page/index.html', 'dist/page/index.html'),
  },
])
