import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

/** A file of the page, ready to be sent. */
export interface PageFile {
  contentType: string
  /** Whether its name changes with its content. */
  isImmutable: boolean
  identity: Encoded
  gzip: Encoded
}

/** Bytes and their strong entity tag, which differs between encodings (RFC 9110 section 8.8.3.3). */
export interface Encoded {
  bytes: Buffer
  tag: string
}

/** Files of other types, such as source maps, are not served. */
const contentTypes = new Map([
  ['.css', 'text/css; charset=utf-8'],
  ['.html', 'text/html; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.txt', 'text/plain; charset=utf-8'],
])

/** The name of a module that is loaded with a view, with a hash of its content. */
const hashedName = /-[\dA-Z]{8}\.js$/

/** The folder of the built page. The URL fits this module both in `src` and in the build. */
const pageDirectory = fileURLToPath(new URL('../dist/page/', import.meta.url))

/**
 * Reads and compresses the files of the page, by path below `/console/`; the page itself has the empty path.
 *
 * @throws an `Error` with the code `console-not-built` if the page was not built
 */
export function readPage(directory = pageDirectory): ReadonlyMap<string, PageFile> {
  const files = new Map<string, PageFile>()
  for (const name of listFiles(directory)) {
    const contentType = contentTypes.get(extname(name))
    if (contentType !== undefined) files.set(name, encode(name, readFileSync(join(directory, name)), contentType))
  }
  const index = files.get('index.html')
  if (!index) throw notBuilt(directory)
  return files.set('', index)
}

function listFiles(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    throw notBuilt(directory, error)
  }
}

function notBuilt(directory: string, cause?: unknown): Error {
  const message = `The console has no page in ${directory}: install @ingest/console again, or build it.`
  return Object.assign(new Error(message, { cause }), { code: 'console-not-built' })
}

function encode(name: string, bytes: Buffer, contentType: string): PageFile {
  const hash = createHash('sha256').update(bytes).digest('base64url')
  return {
    contentType,
    isImmutable: hashedName.test(name),
    identity: { bytes, tag: `"${hash}"` },
    gzip: { bytes: gzipSync(bytes, { level: 9 }), tag: `"${hash}-gzip"` },
  }
}
