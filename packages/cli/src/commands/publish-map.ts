import type { SourcePublication, UploadedMap, UploadOptions, UploadProgress } from '@ingest/client'
import { Command, Option } from 'commander'
import { addTargetOptions, buildOption, placeOption, type Target, parseTarget, connect } from '../connect.ts'
import { exitCode, exitCodes } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { printMessage, writeJson, writeStdout } from '../io.ts'
import { jsonOption, nonEmpty, wholeNumber } from '../options.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { type Progress, createProgressDisplay } from '../terminal/progress.ts'

interface PublishMapOptions {
  place: string
  build: string
  contentType?: string
  allowEmpty?: true
  ifAbsent?: true
  expect?: string
  onFrozen: 'fail' | 'warn'
  dryRun?: true
  concurrency: number
  json?: true
  quiet?: true
}

/** `ingest publish-map`. */
export function publishMapCommand(io: Io): Command {
  const command = new Command('publish-map')
    .description('publish the map of a build; run again, it sends only what is still missing')
    .argument('<file>', 'the map, or - for standard input', nonEmpty)
    .addOption(placeOption().makeOptionMandatory())
    .addOption(buildOption().makeOptionMandatory())
  return addTargetOptions(command)
    .option(
      '--content-type <type>',
      'what the map is; application/json for a file named .json, else application/octet-stream',
      nonEmpty,
    )
    .option('--allow-empty', 'publish a map without any bytes, too, which is most often a build that failed')
    .addOption(
      new Option('--if-absent', 'only if no other map is complete yet for this place and build').conflicts('expect'),
    )
    .option('--expect <digest>', 'only if the complete map has this digest, sha256:…, or is this one already')
    .addOption(
      new Option('--on-frozen <what>', 'what another map is, for a build that is frozen: a failure, or a warning')
        .choices(['fail', 'warn'])
        .default('fail'),
    )
    .option('--dry-run', 'ask what would happen, and publish nothing')
    .addOption(
      new Option('--concurrency <n>', 'how many chunks are sent at once').default(8).argParser(wholeNumber(1, 16)),
    )
    .addOption(jsonOption())
    .option('--quiet', 'print nothing but errors, and the object of --json')
    .addHelpText('after', publishMapHelp)
    .action(async (file: string, options: PublishMapOptions) => {
      const { isDigest } = await import('@ingest/core')
      if (options.expect !== undefined && !isDigest(options.expect)) {
        command.error(`--expect is a digest, sha256: and 64 lower-case hex digits, not '${options.expect}'`)
      }
      await publishMap(io, file, options, parseTarget(command))
    })
}

const publishMapHelp = `
Exit code 0 says that the map is complete on the server, frozen or not. There are two exceptions, both asked for:
--dry-run, and --on-frozen warn, which leaves a frozen build with another map as it is; --json has "ok": false then.

Examples:
  INGEST_KEY=… ingest publish-map map.json --place 920587237 --build 2026.11.21 --url http://127.0.0.1:8787 --project demo
  ingest publish-map map.json --place 920587237 --build 2026.11.21 --data data/games --project demo --dry-run
`

async function publishMap(io: Io, file: string, options: PublishMapOptions, target: Target): Promise<void> {
  const startedAt = performance.now()
  const print = (line: string, object: object) => {
    if (options.json) return writeJson(io, object)
    return options.quiet ? undefined : writeStdout(io, `${line}\n`)
  }
  try {
    const remedy = 'the map is not published; run it again, and it goes on from here'
    const uploaded = await abortOnSignal(io, remedy, (signal) => upload(io, { file, options, target, signal }))
    const durationMs = Math.round(performance.now() - startedAt)
    await print(formatSummary(uploaded, options, durationMs), toJsonResult(uploaded, options, durationMs))
  } catch (error) {
    const { IngestError } = await import('@ingest/core')
    if (!(error instanceof IngestError)) throw error
    const { code, message, retryable } = error
    if (code === 'map-frozen' && options.onFrozen === 'warn') {
      printMessage(io, `not published: ${message}`)
      await print(`frozen ${options.place} ${options.build}: not published`, {
        ok: false,
        outcome: 'frozen',
        error: { code, message, retryable },
      })
      return
    }
    if (exitCodes[code] !== exitCode.temporary) throw error
    throw new IngestError(code, `${message} Run it again: it goes on from here.`, { cause: error })
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
  const progress = options.quiet ? undefined : await createProgressDisplay(io.stderr)
  // who writes into it may wait for ever before the next piece
  if (file === '-') signal.addEventListener('abort', () => io.stdin.destroy(signal.reason))
  try {
    return await connect(io, target, (maps) =>
      uploadMap(maps, toPublication(io, file, options), {
        ...toUploadOptions(options),
        signal,
        ...(progress && { onProgress: (uploaded) => progress.show(toProgress(uploaded)) }),
      }),
    )
  } finally {
    progress?.end()
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

function toJsonResult(uploaded: UploadedMap, { dryRun }: PublishMapOptions, durationMs: number) {
  const { placeId, buildId, outcome, digest, size, contentType, chunks, frozen } = uploaded
  const { uploadedChunks, uploadedBytes, missing, missingBytes } = uploaded
  return {
    ok: true,
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

function formatSummary(uploaded: UploadedMap, { dryRun }: PublishMapOptions, durationMs: number): string {
  const { placeId, buildId, outcome, digest, size, missing, missingBytes } = uploaded
  const { uploadedChunks, uploadedBytes, reusedChunks } = uploaded
  const map = `${placeId} ${buildId} ${digest} ${formatCount(size, 'byte')}`
  if (dryRun) {
    const what =
      missing.length === 0 ? outcome : `${formatCount(missing.length, 'chunk')} to send (${formatBytes(missingBytes)})`
    return `dry run: ${what}: ${map}`
  }
  const sent = `${formatCount(uploadedChunks, 'chunk')} sent (${formatBytes(uploadedBytes)}), ${reusedChunks} reused`
  return `${outcome} ${map}: ${sent}, in ${(durationMs / 1000).toFixed(2)} s`
}
