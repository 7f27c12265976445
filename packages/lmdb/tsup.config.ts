import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    internal: 'src/internal.ts',
    // threads of their own, so files of their own; all files in one folder, wherever the code ends up that starts them
    'index-worker': 'src/ids/index-worker.ts',
    'write-worker': 'src/writer/write-worker.ts',
    'blob-worker': 'src/chunks/blob-worker.ts',
    // processes of their own
    'job-worker': 'src/backup/job-worker.ts',
    'read-worker': 'src/repair/read-worker.ts',
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
