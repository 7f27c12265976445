import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    testing: 'src/testing.ts',
    'open-lmdb-store': 'src/lmdb/open-lmdb-store.ts',
    // threads of their own, so files of their own; all files in one folder, wherever the code ends up that starts them
    'index-worker': 'src/lmdb/ids/index-worker.ts',
    'write-worker': 'src/lmdb/write-worker.ts',
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
