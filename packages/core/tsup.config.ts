import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    internal: 'src/internal.ts',
    wire: 'src/wire.ts',
  },
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  splitting: true,
  // inlines the named bytes of src/json/bytes.ts
  esbuildOptions(options) {
    options.minifySyntax = true
  },
  // `tsc -b` writes the declarations into the same folder
  clean: false,
  dts: false,
  // else `node:http` becomes `http`
  removeNodeProtocol: false,
})
