import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { IngestError, type ReadEventsOptions } from '@ingest/core'
import { type ExportFilesResult, exportFiles, type FileFormat, ndjson, type Period } from '@ingest/export'
import type { ParquetColumn } from '@ingest/export/parquet'
import { Command, InvalidArgumentError, Option } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget, type Target } from '../connect.ts'
import { type Io, type PrintOptions, printResult, writeStdout } from '../io.ts'
import {
  addFilterOptions,
  byteCount,
  nonEmpty,
  parseFilter,
  parsePath,
  parseTimeOption,
  wholeNumber,
} from '../options.ts'
import { isDatabase } from '../store.ts'
import { formatBytes, formatCount, formatSeconds, startTimer, toIsoTime } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface SelectionOptions {
  after?: string
  limit?: number
  from?: string
  to?: string
}

interface FileOptions extends SelectionOptions, PrintOptions {
  output: string
  every?: Period
  partition?: 'hive'
  maxSize: number
  format: 'ndjson' | 'parquet'
  gzip?: true
  column?: ParquetColumn[]
  event: boolean
  cursorFile?: string
}

type ExportOptions = Omit<FileOptions, 'output'> & { output?: string }

/** Options that require --output. */
const fileOptions = ['every', 'partition', 'maxSize', 'format', 'gzip', 'column', 'event', 'cursorFile'] as const

export function exportCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('export')
      .summary('print the stored events as NDJSON, or write them to files')
      .description(
        'print the stored events of a project, oldest first, as NDJSON lines { "cursor", "receivedAt", "event" }; or write them to files, each event exactly once over all runs',
      ),
  )
  command
    .option('--after <cursor>', 'start after the event with this cursor')
    .option('--limit <n>', 'maximum number of events', wholeNumber(0, Number.MAX_SAFE_INTEGER))
  return addFilterOptions(command)
    .option(
      '--from <time>',
      'only events received at this time or later: 2026-11-20T17:51:00Z, or 10m for ten minutes ago',
    )
    .option('--to <time>', 'only events received before this time')
    .option('--output <dir>', 'write files to this directory, continuing after the last run', parsePath)
    .addOption(
      new Option(
        '--every <period>',
        'start a file for each hour or day in UTC; the current one is left for later runs',
      ).choices(['hour', 'day']),
    )
    .addOption(
      new Option(
        '--partition <layout>',
        'write files to folders by the hour of receipt in UTC: dt=2026-11-20/hour=17/…',
      ).choices(['hive']),
    )
    .addOption(
      new Option('--max-size <bytes>', 'maximum size of a file, in bytes of uncompressed NDJSON')
        .default(256 * 2 ** 20, '256M')
        .argParser(byteCount(1, 2 ** 40)),
    )
    .addOption(new Option('--format <format>', 'file format').choices(['ndjson', 'parquet']).default('ndjson'))
    .option('--gzip', 'compress NDJSON with gzip: .ndjson.gz; Parquet is always compressed, with zstd')
    .option(
      '--column <name=pointer:type>',
      'add a typed column to Parquet, such as score=/properties/score:int; the types are string, int, float, boolean and timestamp; may be repeated',
      addColumn,
    )
    .option('--no-event', 'leave out the Parquet column of the whole event')
    .option(
      '--cursor-file <file>',
      'file that stores the position of the export; by default .ingest-export.json in the directory',
      nonEmpty,
    )
    .option('--json', 'print one JSON object with --output, NDJSON without; one object on failure')
    .addHelpText('after', exportHelp)
    .action(async (options: ExportOptions) => {
      const target = parseTarget(command)
      const { output } = options
      if (output !== undefined) return exportToFiles(io, { ...options, output }, target)
      const misplaced = fileOptions.find((name) => command.getOptionValueSource(name) === 'cli')
      if (misplaced === 'cursorFile') {
        command.error('--cursor-file requires --output: the fate of lines in a pipe is unknown')
      }
      if (misplaced !== undefined) command.error(`${flagOf(misplaced)} requires --output: it applies to files`)
      await exportToStdout(io, options, target)
    })

  function flagOf(option: string): string {
    return command.options.find((each) => each.attributeName() === option)?.long ?? option
  }
}

const exportHelp = `
With --output, files are named <project>-<number>-<time of their first event>. A file appears when it is complete and
never changes, so it may be moved or deleted. The cursor file stores where the next run starts; --after applies only to
the first run, and the project, filters, --from, --format, --column and --partition must be the same in all runs. A run may
be interrupted at any time, even by SIGKILL: the next run continues it.
After a backup of the store is restored, the cursor file is refused: export to another directory, with --after and the
cursor that \`ingest restore\` printed.

Examples:
  ingest export --store data/games --project demo > events.ndjson
  ingest export --store data/games --project demo --output export --every day --gzip
  INGEST_KEY=… ingest export --url http://127.0.0.1:8787 --project demo --type round.end --from 10m
`

/** Parses a column and appends it to the previous ones. @throws {InvalidArgumentError} */
function addColumn(text: string, columns: readonly ParquetColumn[] = []): ParquetColumn[] {
  const [, name, pointer, type] = /^([^=]+)=(\/.*):([^:]+)$/.exec(text) ?? []
  if (name === undefined || pointer === undefined || type === undefined) {
    throw new InvalidArgumentError('Expected a name, a JSON Pointer and a type, such as score=/properties/score:int.')
  }
  // parquet() checks the type
  return [...columns, { name, pointer, type: type as ParquetColumn['type'] }]
}

/** @throws {IngestError} `invalid-argument` for an invalid time or range. */
function parseSelection(options: SelectionOptions): ReadEventsOptions {
  const { after, limit, ...filter } = options
  const from = options.from === undefined ? undefined : parseTimeOption('--from', options.from)
  const to = options.to === undefined ? undefined : parseTimeOption('--to', options.to)
  if (from !== undefined && to !== undefined && from >= to) {
    throw new IngestError('invalid-argument', '--from must be before --to.')
  }
  return {
    ...(after !== undefined && { after }),
    ...(limit !== undefined && { limit }),
    ...parseFilter(filter),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  }
}

async function exportToStdout(io: Io, options: SelectionOptions, target: Target): Promise<void> {
  const selection = parseSelection(options)
  await connectToKnown(io, target, async (ingest) => {
    for await (const chunk of ndjson().encode(ingest.readEvents(selection))) if (!(await writeStdout(io, chunk))) return
  })
}

async function exportToFiles(io: Io, options: FileOptions, target: Target): Promise<void> {
  const elapsed = startTimer()
  const { output, maxSize, every, partition, cursorFile, json } = options
  checkOutside(target.store, [output, cursorFile ?? output])
  const selection = parseSelection(options)
  const format = await toFormat(options)
  const exported = await abortOnSignal(io, 'run it again to continue after the existing files', (signal) =>
    connectToKnown(io, target, (ingest) =>
      exportFiles(ingest, {
        ...selection,
        directory: output,
        ...(cursorFile !== undefined && { cursorFile }),
        fileBytesMax: maxSize,
        ...(every && { every }),
        ...(partition && { partition }),
        format,
        signal,
        onFile: async ({ file, events, bytes }) => {
          const amount = `${formatCount(events, 'event')}, ${formatBytes(bytes)}`
          if (!json) await writeStdout(io, `wrote ${join(output, file)}: ${amount}\n`)
        },
      }),
    ),
  )
  const result = { ...exported, durationMs: elapsed() }
  await printResult(io, options, toJsonResult(result, options), formatSummary(result, options))
}

/**
 * Refuses paths inside of the store's directory, which must hold nothing else.
 *
 * @throws {IngestError} `invalid-argument`
 */
function checkOutside(store: string | undefined, paths: readonly string[]): void {
  if (store === undefined || isDatabase(store)) return
  const path = paths.find((each) => isInside(store, each))
  if (path !== undefined)
    throw new IngestError('invalid-argument', `${path} is inside of the store: name another path.`)
}

/** Whether a path is a directory or inside it, with symbolic links resolved. Either may be missing. */
function isInside(directory: string, path: string): boolean {
  const fromDirectory = relative(realPath(directory), realPath(path))
  return fromDirectory !== '..' && !fromDirectory.startsWith(`..${sep}`) && !isAbsolute(fromDirectory)
}

/** The path with symbolic links resolved; its last parts may be missing. */
function realPath(path: string): string {
  const absolute = resolve(path)
  if (existsSync(absolute)) return realpathSync(absolute)
  const parent = dirname(absolute)
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute))
}

/** @throws {IngestError} `invalid-argument` for options of the other format, and for invalid columns */
async function toFormat({ format, gzip, column: columns = [], event }: FileOptions): Promise<FileFormat> {
  if (format === 'ndjson') {
    const misplaced = columns.length > 0 ? '--column' : event ? undefined : '--no-event'
    if (misplaced === undefined) return ndjson({ gzip: gzip === true })
    throw new IngestError('invalid-argument', `${misplaced} requires --format parquet.`)
  }
  if (gzip) throw new IngestError('invalid-argument', '--gzip is for NDJSON: Parquet is compressed with zstd.')
  const { parquet } = await import('@ingest/export/parquet')
  return parquet({ columns, event })
}

type TimedExport = ExportFilesResult & { durationMs: number }

function toJsonResult({ files, cursor, durationMs }: TimedExport, { output }: FileOptions) {
  return {
    ...sumFiles(files),
    files: files.map(({ file, cursor: _, firstReceivedAt, lastReceivedAt, ...rest }) => ({
      file: join(output, file),
      ...rest,
      firstReceivedAt: toIsoTime(firstReceivedAt),
      lastReceivedAt: toIsoTime(lastReceivedAt),
    })),
    cursor: cursor ?? null,
    durationMs,
  }
}

function formatSummary({ files, durationMs }: TimedExport, { every }: FileOptions): string {
  if (files.length === 0) return `exported nothing: there are no new events${every ? ` of a completed ${every}` : ''}`
  const { events, bytes, mistyped } = sumFiles(files)
  const size = `${formatCount(files.length, 'file')}, ${formatBytes(bytes)}`
  const nulls = Object.entries(mistyped).map(([column, count]) => `${column} ${count}`)
  const ending = nulls.length === 0 ? '' : `; values of another type, which are null: ${nulls.join(', ')}`
  return `exported ${formatCount(events, 'event')}: ${size}, in ${formatSeconds(durationMs)}${ending}`
}

function sumFiles(files: ExportFilesResult['files']) {
  const sum = { events: 0, bytes: 0, mistyped: {} as Record<string, number> }
  for (const { events, bytes, mistyped = {} } of files) {
    sum.events += events
    sum.bytes += bytes
    for (const [column, count] of Object.entries(mistyped))
      sum.mistyped[column] = (Object.hasOwn(sum.mistyped, column) ? (sum.mistyped[column] ?? 0) : 0) + count
  }
  return sum
}
