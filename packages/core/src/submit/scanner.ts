import { scannerWasm } from './scanner-wasm.ts'

/** The scanner of ../../assembly. Positions are offsets in its memory. */
export interface Scanner {
  /** Its whole memory. */
  bytes: Buffer
  words: Uint32Array
  /** Where to write the body of a batch, at most 262,144 bytes. */
  bodyStart: number
  /** Where to write the key of the hashes, 16 bytes. */
  hashKeyStart: number
  /** Where to write the JSON string of the project, at most 66 bytes. */
  projectIdStart: number
  /** Where `scan` writes the rows of the events. */
  rowsStart: number
  /** Where `scan` writes the range of each build in the body, two words. */
  buildsStart: number
  /** The same for each type. */
  typesStart: number
  /** Returns the number of events, or -1 for a batch that `parseBatch` must decide. */
  scan(bodyBytes: number, projectIdBytes: number): number
  /** The number of distinct builds in the last scanned batch. */
  countBuilds(): number
  countTypes(): number
  /** Writes the hash of the first bytes of the body to `rowsStart`, two words, the high one first. */
  hash(bytes: number): void
}

interface Exports extends Pick<Scanner, 'scan' | 'countBuilds' | 'countTypes' | 'hash'> {
  memory: { buffer: ArrayBuffer }
  bodyStart: { value: number }
  hashKeyStart: { value: number }
  projectIdStart: { value: number }
  rowsStart: { value: number }
  buildsStart: { value: number }
  typesStart: { value: number }
}

declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
}

let loaded: Scanner | null | undefined

/** The scanner of this thread, loaded on first use; null if WebAssembly or its SIMD instructions are missing. */
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
  const { memory, scan, countBuilds, countTypes, hash } = exports
  return {
    bytes: Buffer.from(memory.buffer),
    words: new Uint32Array(memory.buffer),
    bodyStart: exports.bodyStart.value,
    hashKeyStart: exports.hashKeyStart.value,
    projectIdStart: exports.projectIdStart.value,
    rowsStart: exports.rowsStart.value,
    buildsStart: exports.buildsStart.value,
    typesStart: exports.typesStart.value,
    scan,
    countBuilds,
    countTypes,
    hash,
  }
}
