import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/**
 * A model of a disk: what is certainly on it, and what it may have written. It promises what POSIX does and nothing more:
 * a sync of a file makes its bytes durable but not its name, a sync of a directory its names but not the bytes of its
 * files. Unsynced changes reach the disk in any order, in sectors of 512 bytes. A rename is atomic.
 *
 * @typedef {import('./read-log.js').Operation} Operation
 * @typedef {import('../site/run.js').Random} Random
 *
 * Bytes within one page.
 * @typedef {{ at: number, offset: number, data: Buffer }} Piece
 *
 * @typedef {object} File
 * @property {Map<number, Buffer>} pages that are durable
 * @property {Map<number, Piece[]>} pending by page, in the order of the log
 * @property {number} bytes the durable size
 * @property {{ at: number, bytes: number }[]} sizes that are not durable
 *
 * Names that were added or removed together. A rename removes one and adds one, perhaps in another directory; a sync of
 * the directory of the last one makes the change durable.
 * @typedef {{ at: number, changes: { directory: Directory, name: string, node: Node | undefined }[] }} Naming
 *
 * @typedef {{ durable: Map<string, Node>, live: Map<string, Node>, pending: Naming[] }} Directory
 * @typedef {{ file: File, directory?: undefined } | { directory: Directory, file?: undefined }} Node
 */

const pageBytes = 4096
const sectorBytes = 512
const zeros = Buffer.alloc(pageBytes)

/**
 * Which unsynced changes are on the disk: none; all; all up to some moment; one version of each page or of each sector; or
 * the sizes of files without their bytes.
 */
const modes = /** @type {const} */ (['nothing', 'all', 'prefix', 'pages', 'sectors', 'sectors', 'sizes'])

/**
 * @param {object} options
 * @param {string} options.root the recorded directory, which was empty at first
 * @param {(operation: Operation, isDirectory: boolean) => boolean} [options.ignores] syncs that the disk ignores
 */
export function createDisk({ root, ignores = () => false }) {
  const top = createDirectory()
  /** @type {Map<number, Node>} */
  const inodes = new Map()
  /** When each sync began. @type {Map<bigint, number>} */
  const syncs = new Map()

  /** @param {string} path @returns {Directory} */
  function directoryAt(path) {
    if (path === root) return top
    const directory = nodeAt(path)?.directory
    if (!directory) throw new Error(`${path} is not a directory of the log`)
    return directory
  }

  /** @param {string} path */
  const nodeAt = (path) => directoryAt(dirname(path)).live.get(basename(path))

  /** @param {number} at @param {(readonly [path: string, node: Node | undefined])[]} names */
  function setNames(at, ...names) {
    const changes = names.map(([path, node]) => ({ directory: directoryAt(dirname(path)), name: basename(path), node }))
    const naming = { at, changes }
    for (const { directory, name, node } of changes) {
      setName(directory.live, name, node)
      if (directory.pending.at(-1) !== naming) directory.pending.push(naming)
    }
  }

  /** @param {number} inode @param {string} path */
  function fileOf(inode, path) {
    const file = inodes.get(inode)?.file
    if (!file) throw new Error(`${path} was not created in the log`)
    return file
  }

  /** @param {Operation & { op: 'syncEnd' }} operation */
  function sync(operation) {
    const { path, inode, id } = operation
    const before = syncs.get(id) ?? 0
    syncs.delete(id)
    const file = inodes.get(inode)?.file
    if (ignores(operation, !file)) return
    if (file) syncFile(file, before)
    else syncDirectory(directoryAt(path), before)
  }

  return {
    /** @param {Operation} operation @param {number} at its index in the log */
    apply(operation, at) {
      const { op, path, inode } = operation
      if (op === 'create') {
        const node = { file: createFile() }
        inodes.set(inode, node)
        setNames(at, [path, node])
      } else if (op === 'mkdir') {
        inodes.delete(inode)
        setNames(at, [path, { directory: createDirectory() }])
      } else if (op === 'link') setNames(at, [path, inodes.get(inode)])
      else if (op === 'remove') setNames(at, [path, undefined])
      else if (op === 'rename') setNames(at, [operation.from, undefined], [path, nodeAt(operation.from)])
      else if (op === 'syncBegin') syncs.set(operation.id, at)
      else if (op === 'syncEnd') sync(operation)
      else if (op === 'truncate') truncate(fileOf(inode, path), at, operation.bytes)
      else if (op === 'write') write(fileOf(inode, path), at, operation)
    },

    /**
     * Writes the paths with one of these prefixes as the disk may hold them after a power loss at index `at` of the log.
     *
     * @param {string} to @param {{ random: Random, at: number, prefixes: readonly string[] }} options
     */
    crash(to, { random, at, prefixes }) {
      const mode = random.pick(modes)
      const keeps = keeping(mode, random, at)
      mkdirSync(to)
      const names = keptNames(top, keeps)
      for (const [name, node] of names) {
        if (prefixes.some((prefix) => name.startsWith(prefix))) writeNode(join(to, name), node, { mode, keeps, random })
      }
      return mode
    },

    /** The names that are not durable, also removed ones, and the files whose bytes are not, since a place in the log. */
    unsynced: () => [...unsynced(root, top)],

    /** Differences between a directory and the log: changes that were not recorded. @param {string} directory */
    differences: (directory) => [...compare(directory, top)],
  }
}

/** @returns {Directory} */
const createDirectory = () => ({ durable: new Map(), live: new Map(), pending: [] })
/** @returns {File} */
const createFile = () => ({ pages: new Map(), pending: new Map(), bytes: 0, sizes: [] })

/** @param {Map<string, Node>} names @param {string} name @param {Node | undefined} node */
function setName(names, name, node) {
  if (node) names.set(name, node)
  else names.delete(name)
}

/** @param {File} file */
const liveBytes = (file) => file.sizes.at(-1)?.bytes ?? file.bytes

/** @param {File} file @param {number} at @param {{ offset: number, data: Buffer, isSynced: boolean }} written */
function write(file, at, { offset, data, isSynced }) {
  const end = offset + data.length
  if (end > liveBytes(file)) file.sizes.push({ at, bytes: end })
  for (let from = offset; from < end; ) {
    const page = Math.floor(from / pageBytes)
    const to = Math.min(end, (page + 1) * pageBytes)
    addPiece(file, page, { at, offset: from % pageBytes, data: data.subarray(from - offset, to - offset) })
    // a synced write also syncs what else was written to its pages
    if (isSynced) syncPage(file, page, at + 1)
    from = to
  }
  if (isSynced) syncSize(file, at + 1)
}

/** @param {File} file @param {number} page @param {Piece} piece */
function addPiece(file, page, piece) {
  const pieces = file.pending.get(page)
  if (pieces) pieces.push(piece)
  else file.pending.set(page, [piece])
}

/** @param {File} file @param {number} at @param {number} bytes */
function truncate(file, at, bytes) {
  for (const page of new Set([...file.pages.keys(), ...file.pending.keys()])) {
    const offset = Math.max(0, bytes - page * pageBytes)
    if (offset < pageBytes) addPiece(file, page, { at, offset, data: zeros.subarray(offset) })
  }
  if (bytes !== liveBytes(file)) file.sizes.push({ at, bytes })
}

/** What was written before a sync began is durable when it ends. @param {File} file @param {number} before */
function syncFile(file, before) {
  for (const page of file.pending.keys()) syncPage(file, page, before)
  syncSize(file, before)
}

/** @param {File} file @param {number} page @param {number} before */
function syncPage(file, page, before) {
  const pieces = file.pending.get(page) ?? []
  const content = file.pages.get(page) ?? Buffer.alloc(pageBytes)
  const left = pieces.filter(({ at }) => at >= before)
  for (const { at, offset, data } of pieces) if (at < before) data.copy(content, offset)
  if (left.length < pieces.length) file.pages.set(page, content)
  if (left.length === 0) file.pending.delete(page)
  else file.pending.set(page, left)
}

/** @param {File} file @param {number} before */
function syncSize(file, before) {
  for (let [size] = file.sizes; size && size.at < before; [size] = file.sizes) {
    file.bytes = size.bytes
    file.sizes.shift()
  }
}

/** @param {Directory} directory @param {number} before */
function syncDirectory(directory, before) {
  for (const naming of directory.pending.filter(({ at }) => at < before)) {
    if (naming.changes.at(-1)?.directory !== directory) continue
    for (const { directory, name, node } of naming.changes) {
      setName(directory.durable, name, node)
      directory.pending = directory.pending.filter((each) => each !== naming)
    }
  }
}

/**
 * Which changes reached the disk.
 *
 * @typedef {(change: object, at: number) => boolean} Keeps
 *
 * @param {typeof modes[number]} mode @param {Random} random @param {number} at @returns {Keeps}
 */
function keeping(mode, random, at) {
  if (mode === 'nothing') return () => false
  if (mode === 'all') return () => true
  // most unsynced changes are recent
  const until = at - Math.floor(random.next() ** 3 * at)
  if (mode === 'prefix') return (_, at) => at < until
  const probability = random.pick([0.1, 0.5, 0.9])
  /** @type {Map<object, boolean>} */
  const kept = new Map()
  return (change) => {
    const known = kept.get(change) ?? random.chance(probability)
    kept.set(change, known)
    return known
  }
}

/** @param {Directory} directory @param {Keeps} keeps */
function keptNames(directory, keeps) {
  const names = new Map(directory.durable)
  for (const naming of directory.pending) {
    if (!keeps(naming, naming.at)) continue
    for (const { directory: changed, name, node } of naming.changes) {
      if (changed === directory) setName(names, name, node)
    }
  }
  return names
}

/**
 * @param {string} path
 * @param {Node} node
 * @param {{ mode: typeof modes[number], keeps: Keeps, random: Random }} options
 */
function writeNode(path, node, options) {
  if (node.file) return writeFileSync(path, contentOf(path, node.file, options))
  mkdirSync(path)
  for (const [name, inner] of keptNames(node.directory, options.keeps)) writeNode(join(path, name), inner, options)
}

/** @param {string} path @param {File} file @param {{ mode: typeof modes[number], keeps: Keeps, random: Random }} options */
function contentOf(path, file, { mode, keeps, random }) {
  const sizes = [{ at: 0, bytes: file.bytes }, ...file.sizes.filter((size) => mode === 'sizes' || keeps(size, size.at))]
  const isRandom = mode === 'pages' || mode === 'sectors'
  const { bytes = 0 } = sizes[isRandom ? random.integer(0, sizes.length - 1) : sizes.length - 1] ?? {}
  // LMDB writes it through a mapping, which is not recorded and never synced
  if (basename(path) === 'lock.mdb') return Buffer.alloc(bytes, random.pick([0, 0xff, 1]))
  const content = Buffer.alloc(Math.ceil(Math.max(bytes, file.bytes) / pageBytes) * pageBytes)
  for (const [page, data] of file.pages) data.copy(content, page * pageBytes)
  if (mode !== 'sizes') {
    for (const [page, pieces] of file.pending)
      keepPieces(content.subarray(page * pageBytes), pieces, { mode, keeps, random })
  }
  return content.subarray(0, bytes)
}

/**
 * Each part of a page has the writes up to some moment, because the page cache holds only one version.
 *
 * @param {Buffer} page @param {Piece[]} pieces @param {{ mode: typeof modes[number], keeps: Keeps, random: Random }} options
 */
function keepPieces(page, pieces, { mode, keeps, random }) {
  const unit = mode === 'sectors' ? sectorBytes : pageBytes
  for (let from = 0; from < Math.min(pageBytes, page.length); from += unit) {
    const isRandom = mode === 'pages' || mode === 'sectors'
    const last = isRandom && keeps({}, 0) ? random.integer(1, pieces.length) : 0
    pieces.forEach(({ at, offset, data }, index) => {
      if (isRandom ? index >= last : !keeps(data, at)) return
      const start = Math.max(from, offset)
      const end = Math.min(from + unit, offset + data.length)
      if (start < end) data.copy(page, start, start - offset, end - offset)
    })
  }
}

/**
 * @param {string} path @param {Directory} directory
 * @returns {Generator<{ path: string } & ({ part: 'name' } | { part: 'bytes', since: number })>}
 */
function* unsynced(path, { durable, live }) {
  for (const name of new Set([...durable.keys(), ...live.keys()])) {
    const inner = join(path, name)
    const node = live.get(name)
    if (durable.get(name) !== node) yield { path: inner, part: 'name' }
    if (node?.directory) yield* unsynced(inner, node.directory)
    const changes = node?.file ? [...node.file.sizes, ...[...node.file.pending.values()].flat()] : []
    if (changes.length > 0) yield { path: inner, part: 'bytes', since: Math.min(...changes.map(({ at }) => at)) }
  }
}

/** @param {string} path @param {Directory} directory @returns {Generator<string>} */
function* compare(path, directory) {
  const found = new Set(readdirSync(path))
  for (const [name, node] of directory.live) {
    const inner = join(path, name)
    if (!found.delete(name)) yield `${inner} is missing`
    else if (node.directory) yield* compare(inner, node.directory)
    else if (name !== 'lock.mdb' && !readFileSync(inner).equals(liveContent(node.file))) yield `${inner} differs`
  }
  for (const name of found) yield `${join(path, name)} is not in the log`
}

/** @param {File} file */
function liveContent(file) {
  const bytes = liveBytes(file)
  const content = Buffer.alloc(Math.ceil(bytes / pageBytes) * pageBytes)
  for (const [page, data] of file.pages) data.copy(content, page * pageBytes)
  for (const [page, pieces] of file.pending) {
    for (const { offset, data } of pieces) data.copy(content, page * pageBytes + offset)
  }
  return content.subarray(0, bytes)
}
