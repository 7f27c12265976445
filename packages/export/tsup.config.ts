import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    parquet: 'src/parquet.ts',
  },
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  splitting: true,
  // `tsc -b` writes the declarations into the same folder
  clean: false,
  dts: false,
  // otherwise `node:http` becomes `http`
  removeNodeProtocol: false,
})
