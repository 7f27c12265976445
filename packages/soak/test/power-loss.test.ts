import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import t from 'tap'
import { whyNotPreloaded } from '../src/faults/preload-library.js'
import { checkPowerLoss, type PowerLossOptions } from '../src/power-loss/check-power-loss.js'
import { createDisk } from '../src/power-loss/disk.js'
import { readRecording, recordWorkload } from '../src/power-loss/record.js'
import type { Promised } from '../src/power-loss/workload-content.js'

// INGEST_IMAGES=5000 opens more images, INGEST_FIRST_SEED=7 other ones. Each run records the workload again, unless
// INGEST_RECORDING=DIR names the directory of a recording that a run kept.
const images = Number(process.env.INGEST_IMAGES ?? 60)
const seed = Number(process.env.INGEST_FIRST_SEED ?? Date.now() % 1_000_000)

const skip = whyNotPreloaded() ?? false
const kept = process.env.INGEST_RECORDING
const directory = kept ?? mkdtempSync(join(tmpdir(), 'ingest-power-loss-'))
const record = kept === undefined ? recordWorkload : readRecording
const { root, operations } = skip ? { root: '', operations: [] } : await record(directory)
const check = (options: Partial<PowerLossOptions>) => checkPowerLoss({ root, operations, seed, images, ...options })

t.test('the log of the workload explains every file', { skip }, async (t) => {
  const disk = createDisk({ root })
  operations.forEach((operation, at) => void disk.apply(operation, at))
  t.strictSame(disk.differences(root), [])
})

t.test('a file of LMDB is durable before its first commit', { skip }, async (t) => {
  const synced = new Set<number>()
  const committed = new Set<number>()
  const early: string[] = []
  for (const operation of operations) {
    const { op, path, inode } = operation
    if (op === 'syncEnd') synced.add(inode)
    if (op !== 'write' || !/\/store\/(events|chunks|ids)\/data\.mdb$/.test(path)) continue
    // the two headers, then the pages of the first commit
    if (operation.offset === 0 && operation.data.length === 8192) synced.delete(inode)
    if (operation.offset < 8192 || committed.has(inode)) continue
    committed.add(inode)
    if (!synced.has(inode)) early.push(relative(root, path))
  }
  t.ok(committed.size >= 3)
  t.strictSame(early, [])
})

const tableOfFiles = readTable(readFileSync(new URL('../../../../docs/reliability.md', import.meta.url), 'utf8'))

t.test('the table of files has every file that is created', { skip }, async (t) => {
  const created = operations.filter(({ op }) => /^(create|mkdir|rename|link)$/.test(op))
  const paths = new Set(created.map(({ path }) => relative(root, path)))
  const unknown = [...paths].filter(
    (path) => !tableOfFiles.some(({ patterns }) => patterns.some((each) => each.test(path))),
  )
  t.strictSame(unknown, [])
  const idle = tableOfFiles.filter(
    ({ patterns }) => ![...paths].some((path) => patterns.some((each) => each.test(path))),
  )
  // the workload damages no spool, and publishes no map from a stream
  t.strictSame(
    idle.map(({ names }) => names[0]),
    ['SPOOL/*.spool.damaged', 'ingest-*/'],
  )
})

/** Where the files of a promise are, below the root. */
function placeOf(promised: Promised): string {
  if (promised.kind === 'copy') return promised.to
  return promised.kind === 'spool' || promised.kind === 'output' ? promised.kind : 'store'
}

t.test('what is acknowledged or committed is synced, unless the table of files says never', { skip }, async (t) => {
  const disk = createDisk({ root })
  /** When a header of each LMDB file was written last, which ends a commit. */
  const committed = new Map<string, number>()
  const kinds = new Set<string>()
  const early = new Set<string>()
  for (const [at, operation] of operations.entries()) {
    disk.apply(operation, at)
    const { op, path } = operation
    // without those of a new file
    if (op === 'write' && path.endsWith('/data.mdb') && operation.offset < 8192 && operation.data.length < 8192) {
      committed.set(path, at)
      for (const change of disk.unsynced()) {
        // readers see a commit as soon as the header is written
        const isEarly = change.path === path && change.part === 'bytes' && change.since < at
        if (isEarly) early.add(`commit: the bytes of ${relative(root, path)}`)
      }
    }
    if (op !== 'note' || operation.note.type !== 'end') continue
    const { promised } = operation.note
    kinds.add(promised.kind)
    for (const change of disk.unsynced()) {
      const { path, part } = change
      const name = relative(root, path)
      if (!name.startsWith(placeOf(promised))) continue
      // pages of the next commit
      if (change.part === 'bytes' && change.since > (committed.get(path) ?? operations.length)) continue
      const row = tableOfFiles.find(({ patterns }) => patterns.some((each) => each.test(name)))
      if (row?.[part] !== 'never') early.add(`${promised.kind}: the ${part} of ${name}`)
    }
  }
  t.equal(kinds.size, 7)
  t.strictSame([...early], [])
})

t.test('a power loss at any moment costs nothing that was acknowledged', { skip, timeout: 0 }, async (t) => {
  const { problems, counts } = await check({ directory })
  const all = Object.values(counts)
  t.equal(
    all.reduce((sum, { images }) => sum + images, 0),
    images,
  )
  t.ok(all.reduce((sum, { acknowledged }) => sum + acknowledged, 0) > 0)
  t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
  t.strictSame(
    problems,
    [],
    `INGEST_IMAGES=${images} INGEST_FIRST_SEED=${seed} INGEST_RECORDING=${directory}, which has images`,
  )
  if (problems.length === 0 && kept === undefined) rmSync(directory, { recursive: true })
})

t.test('the check finds ignored syncs and early acknowledgements', { skip }, async (t) => {
  const isLog = (path: string) => path.endsWith('/store/events/data.mdb')
  const bugs: Record<string, Partial<PowerLossOptions>> = {
    'names are not synced': { ignores: (_, isDirectory) => isDirectory },
    'the header is written before the pages are synced': { ignores: ({ path }) => isLog(path) },
    'a 202 comes before the commit': { acknowledgesEarly: true },
  }
  for (const [bug, options] of Object.entries(bugs)) {
    const { problems } = await check({ ...options, images: 60, endsAtFirst: true })
    t.equal(problems.length, 1, bug)
    t.comment(`${bug}: ${problems[0]?.phase}: ${problems[0]?.problem.split('\n')[0]}`)
  }
})

/** The rows of the table of files: the names of files, their patterns in the recorded directory, and when each is synced. */
function readTable(page: string): { names: string[]; patterns: RegExp[]; bytes: string; name: string }[] {
  const places: Record<string, string> = {
    STORE: '(store|(backup|repaired)(\\.unfinished-\\w+)?|restored(/restoring)?)',
    TARGET: '(backup|repaired)',
    SPOOL: 'spool',
    EXPORT: 'export',
    FILE: 'output.ndjson',
  }
  const toPattern = (name: string) =>
    name
      .replace(/\/$/, '')
      .replaceAll('.', '\\.')
      .replaceAll('*', '[^/]+')
      .replace(/\b(STORE|TARGET|SPOOL|EXPORT|FILE)\b/, (place) => places[place] ?? '')
  const [, section = ''] = /^## Files$(.*?)^## /ms.exec(page) ?? []
  const rows = section.split('\n').filter((line) => line.startsWith('| `'))
  return rows.map((row) => {
    const [files = '', bytes = '', name = ''] = row.split(' | ').map((cell) => cell.trim())
    const names = Array.from(files.matchAll(/`([^`]+)`/g), ([, name = '']) => name)
    const inFolders = row.includes('also in `dt=*/hour=*/`') ? ['EXPORT/dt=*/hour=*/*.ndjson'] : []
    const patterns = [...names, ...inFolders].map((name) => new RegExp(`^${toPattern(name)}$`))
    return { names, patterns, bytes, name }
  })
}
