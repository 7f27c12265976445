import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    testing: 'src/testing.ts',
    'lmdb/open-lmdb-store': 'src/lmdb/open-lmdb-store.ts',
    // a thread of its own, so a file of its own, beside the one that starts it
    'lmdb/index-worker': 'src/lmdb/ids/index-worker.ts',
  },
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  splitting: true,
  // `tsc -b` writes the declarations into the same folder
  clean: false,
  dts: false,
  // else `node:http` becomes `http`
  removeNodeProtocol: false,
})
