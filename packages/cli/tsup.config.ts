import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    bin: 'src/bin.ts',
    // a process of its own, so a file of its own
    worker: 'src/workers/worker.ts',
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
