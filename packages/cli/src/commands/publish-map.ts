import type { SourcePublication, UploadedMap, UploadOptions, UploadProgress } from '@ingest/client'
import { IngestError } from '@ingest/core'
import { isDigest } from '@ingest/core/internal'
import { Command, Option } from 'commander'
import { addTargetOptions, connect, parseTarget, type Target } from '../connect.ts'
import { exitCode, exitCodeOf } from '../exit-code.ts'
import { type Io, type PrintOptions, printMessage, printResult } from '../io.ts'
import { buildOption, jsonOption, nonEmpty, placeOption, quietOption, wholeNumber } from '../options.ts'
import { formatBytes, formatCount, formatSeconds, startTimer } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { type Progress, withProgress } from '../terminal/progress.ts'

interface PublishMapOptions extends PrintOptions {
  place: string
  build: string
  contentType?: string
  allowEmpty?: true
  ifAbsent?: true
  expect?: string
  onFrozen: 'fail' | 'warn'
  dryRun?: true
  concurrency: number
}

export function publishMapCommand(io: Io): Command {
  const command = new Command('publish-map')
    .description('publish the map of a build; a repeated run sends only missing chunks')
    .argument('<file>', 'the map, or - for standard input', nonEmpty)
    .addOption(placeOption().makeOptionMandatory())
    .addOption(buildOption().makeOptionMandatory())
  return addTargetOptions(command)
    .option(
      '--content-type <type>',
      'media type; by default application/json for *.json, else application/octet-stream',
      nonEmpty,
    )
    .option('--allow-empty', 'allow a map of 0 bytes, which is most often a failed build')
    .addOption(
      new Option('--if-absent', 'publish only if no other map is complete for this place and build').conflicts(
        'expect',
      ),
    )
    .option('--expect <digest>', 'publish only if the complete map has this digest, sha256:…, or is the same map')
    .addOption(
      new Option('--on-frozen <what>', 'report a different map of a frozen build as a failure or a warning')
        .choices(['fail', 'warn'])
        .default('fail'),
    )
    .option('--dry-run', 'print what would happen, and publish nothing')
    .addOption(
      new Option('--concurrency <n>', 'maximum number of chunks in flight').default(8).argParser(wholeNumber(1, 16)),
    )
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', publishMapHelp)
    .action(async (file: string, options: PublishMapOptions) => {
      if (options.expect !== undefined && !isDigest(options.expect)) {
        command.error(`--expect expects a digest, sha256: and 64 lower-case hex digits, not '${options.expect}'`)
      }
      await publishMap(io, file, options, parseTarget(command))
    })
}

const publishMapHelp = `
Exit code 0: the map is complete on the server, frozen or not. The exceptions are --dry-run, and --on-frozen warn, which
does not publish a different map of a frozen build; --json then has "ok": false.

Examples:
  INGEST_KEY=… ingest publish-map map.json --place 920587237 --build 2026.11.21 --url http://127.0.0.1:8787 --project demo
  ingest publish-map map.json --place 920587237 --build 2026.11.21 --store data/games --project demo --dry-run
`

async function publishMap(io: Io, file: string, options: PublishMapOptions, target: Target): Promise<void> {
  const elapsed = startTimer()
  try {
    const advice = 'the map is not published; run it again to resume'
    const uploaded = await abortOnSignal(io, advice, (signal) => upload(io, { file, options, target, signal }))
    const result = { ...uploaded, durationMs: elapsed() }
    await printResult(io, options, toJsonResult(result, options), formatSummary(result, options))
  } catch (error) {
    if (!(error instanceof IngestError)) throw error
    const { code, message, retryable } = error
    if (code === 'map-frozen' && options.onFrozen === 'warn') {
      printMessage(io, `not published: ${message}`)
      const result = { ok: false, outcome: 'frozen', error: { code, message, retryable } }
      return printResult(io, options, result, `frozen ${options.place} ${options.build}: not published`)
    }
    if (exitCodeOf(code) !== exitCode.temporary) throw error
    throw new IngestError(code, `${message} Run it again to resume.`, { cause: error })
  }
}

interface Upload {
  file: string
  options: PublishMapOptions
  target: Target
  signal: AbortSignal
}

async function upload(io: Io, { file, options, target, signal }: Upload): Promise<UploadedMap> {
  const { uploadMap } = await import('@ingest/client')
  // the writer may never close the pipe
  if (file === '-') signal.addEventListener('abort', () => io.stdin.destroy(signal.reason))
  try {
    return await withProgress(io, options.quiet, (show) => {
      const onProgress = (uploaded: UploadProgress) => show(toProgress(uploaded))
      return connect(io, target, (maps) =>
        uploadMap(maps, toPublication(io, file, options), { ...toUploadOptions(options), signal, onProgress }),
      )
    })
  } finally {
    if (file === '-') io.stdin.destroy()
  }
}

const labels = { spool: 'reading', hash: 'hashing', upload: 'uploading' } as const

function toProgress({ phase, bytesDone, bytesTotal, chunksDone, chunksTotal }: UploadProgress): Progress {
  const bytes = bytesTotal === null ? formatBytes(bytesDone) : `${formatBytes(bytesDone)} of ${formatBytes(bytesTotal)}`
  return {
    label: labels[phase],
    done: bytesDone,
    total: bytesTotal,
    text: chunksTotal === null ? bytes : `${bytes}, ${chunksDone} of ${formatCount(chunksTotal, 'chunk')}`,
    isAnnounced: phase === 'upload',
  }
}

function toPublication(io: Io, file: string, { place, build, contentType }: PublishMapOptions): SourcePublication {
  return {
    placeId: place,
    buildId: build,
    source: file === '-' ? io.stdin : file,
    contentType: contentType ?? (/\.json$/i.test(file) ? 'application/json' : 'application/octet-stream'),
  }
}

function toUploadOptions(options: PublishMapOptions): UploadOptions {
  const { allowEmpty = false, concurrency, ifAbsent, expect, dryRun } = options
  return {
    allowEmpty,
    concurrency,
    ...(ifAbsent && { ifNoneMatch: '*' }),
    ...(expect !== undefined && { ifMatch: expect }),
    ...(dryRun && { dryRun }),
  }
}

type TimedUpload = UploadedMap & { durationMs: number }

function toJsonResult(uploaded: TimedUpload, { dryRun }: PublishMapOptions) {
  const { placeId, buildId, outcome, digest, size, contentType, chunks, frozen } = uploaded
  const { uploadedChunks, uploadedBytes, missing, missingBytes, durationMs } = uploaded
  return {
    outcome,
    ...(dryRun && { dryRun, missingChunks: missing.length, missingBytes }),
    placeId,
    buildId,
    digest,
    size,
    contentType,
    chunks,
    uploadedChunks,
    uploadedBytes,
    frozen,
    durationMs,
  }
}

function formatSummary(uploaded: TimedUpload, { dryRun }: PublishMapOptions): string {
  const { placeId, buildId, outcome, digest, size, missing, missingBytes } = uploaded
  const { uploadedChunks, uploadedBytes, reusedChunks, durationMs } = uploaded
  const map = `${placeId} ${buildId} ${digest} ${formatCount(size, 'byte')}`
  if (dryRun) {
    const what =
      missing.length === 0 ? outcome : `${formatCount(missing.length, 'chunk')} to send (${formatBytes(missingBytes)})`
    return `dry run: ${what}: ${map}`
  }
  const sent = `${formatCount(uploadedChunks, 'chunk')} sent (${formatBytes(uploadedBytes)}), ${reusedChunks} reused`
  return `${outcome} ${map}: ${sent}, in ${formatSeconds(durationMs)}`
}
