import { scannerWasm } from './scanner-wasm.ts'

/** The scanner of ../../assembly. Positions are those in its memory. */
export interface Scanner {
  /** Its whole memory. */
  bytes: Buffer
  words: Uint32Array
  /** Where the body of a batch is to be, of at most 262,144 bytes. */
  bodyStart: number
  /** Where the key of the hashes is to be, 16 bytes. */
  hashKeyStart: number
  /** Where the JSON string of the project is to be, of at most 66 bytes. */
  projectIdStart: number
  /** Where `scan` writes the rows of the events. */
  rowsStart: number
  /** Where `scan` writes the range of each build in the body, two words. */
  buildsStart: number
  /** The number of the events of a batch; -1 for a batch that it does not know. */
  scan(bodyBytes: number, projectIdBytes: number): number
  /** The number of the builds of the batch that was scanned. */
  countBuilds(): number
  /** Writes the hash of the first bytes of the body to `rowsStart`, two words, the high one first. */
  hash(bytes: number): void
}

interface Exports extends Pick<Scanner, 'scan' | 'countBuilds' | 'hash'> {
  memory: { buffer: ArrayBuffer }
  bodyStart: { value: number }
  hashKeyStart: { value: number }
  projectIdStart: { value: number }
  rowsStart: { value: number }
  buildsStart: { value: number }
}

declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
}

let loaded: Scanner | null | undefined

/** The scanner of this thread, which is loaded with the first call; null without WebAssembly or its SIMD instructions. */
export function loadScanner(): Scanner | null {
  if (loaded === undefined) loaded = load()
  return loaded
}

function load(): Scanner | null {
  let exports: Exports
  try {
    const module = new WebAssembly.Module(Buffer.from(scannerWasm, 'base64'))
    exports = new WebAssembly.Instance(module).exports as Exports
  } catch {
    // `node --jitless` has no WebAssembly, some processors no SIMD, some systems no address space for its memory
    return null
  }
  const { memory, scan, countBuilds, hash } = exports
  return {
    bytes: Buffer.from(memory.buffer),
    words: new Uint32Array(memory.buffer),
    bodyStart: exports.bodyStart.value,
    hashKeyStart: exports.hashKeyStart.value,
    projectIdStart: exports.projectIdStart.value,
    rowsStart: exports.rowsStart.value,
    buildsStart: exports.buildsStart.value,
    scan,
    countBuilds,
    hash,
  }
}
