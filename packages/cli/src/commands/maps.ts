import { type Ingest, IngestError, type MapContent, type MapId, type MapStatus } from '@ingest/core'
import { writeFile } from '@ingest/core/internal'
import * as wire from '@ingest/core/wire'
import { Command } from 'commander'
import { addTargetOptions, connect, connectToKnown, parseTarget } from '../connect.ts'
import { checkContent, checkFile } from '../files/check-content.ts'
import { type Io, type PrintOptions, printResult, writeStdout } from '../io.ts'
import { buildOption, jsonOption, nonEmpty, parsePath, placeOption } from '../options.ts'
import { formatCount, formatTable, toIsoTime } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface MapOptions extends PrintOptions {
  place: string
  build: string
}

export function mapsCommand(io: Io): Command {
  const maps = new Command('maps')
    .description('list, show, download and verify published maps')
    .addHelpText('after', examples('list'))
  for (const command of [mapsListCommand(io), mapsShowCommand(io), mapsDownloadCommand(io), mapsVerifyCommand(io)])
    maps.addCommand(command)
  return maps
}

function mapsListCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('list')
      .description('list the maps of a project, complete or not, by buildId and placeId')
      .addOption(placeOption())
      .addOption(buildOption()),
  )
  return command
    .addOption(jsonOption())
    .addHelpText('after', examples('list', ''))
    .action(async (options: Partial<MapOptions>) => {
      const { place, build } = options
      const maps = await connectToKnown(io, parseTarget(command), (ingest) =>
        listAllMaps(ingest, { ...(place && { placeId: place }), ...(build && { buildId: build }) }),
      )
      const result = { maps: wire.toWire(wire.MapPage, { maps, next: null }).maps }
      await printResult(io, options, result, formatMapTable(maps))
    })
}

function mapsShowCommand(io: Io): Command {
  const command = singleMapCommand('show', 'show the state of a map')
  return command.addHelpText('after', examples('show')).action(async (options: MapOptions) => {
    const map = await connect(io, parseTarget(command), (ingest) => ingest.getMap(toMapId(options)))
    if (!map) throw mapNotFound('No map is published', options)
    await printResult(io, options, wire.toWire(wire.MapStatus, map), formatMapDetails(map))
  })
}

function mapsDownloadCommand(io: Io): Command {
  const command = singleMapCommand('download', 'download a complete map, and verify its digest')
  return command
    .option('--output <file>', 'file to write; standard output by default', parsePath)
    .addHelpText('after', examples('download', ' --output map.json'))
    .action(async (options: MapOptions & { output?: string }) => {
      const target = parseTarget(command)
      const { output } = options
      if (options.json && output === undefined)
        command.error('--json requires --output: standard output holds the bytes of the map')
      const content = await abortOnSignal(io, 'the map was not downloaded', (signal) =>
        connect(io, target, async (ingest) => {
          const content = await findContent(ingest, options)
          if (output === undefined) await checkContent(content, signal, (bytes) => writeStdout(io, bytes))
          else await writeFile(output, (write) => checkContent(content, signal, write))
          return content
        }),
      )
      if (output === undefined) return
      await printResult(io, options, { ...describeContent(content), file: output }, `downloaded ${output}`)
    })
}

function mapsVerifyCommand(io: Io): Command {
  const command = singleMapCommand('verify', 'read a complete map, and verify its digest and size')
  return command
    .option('--file <file>', 'compare a file with the map too', nonEmpty)
    .addHelpText('after', examples('verify', ' --file map.json'))
    .action(async (options: MapOptions & { file?: string }) => {
      const target = parseTarget(command)
      const { file } = options
      const content = await abortOnSignal(io, 'the map was not verified', (signal) =>
        connect(io, target, async (ingest) => {
          const content = await findContent(ingest, options)
          if (file !== undefined) await checkFile(content, file, signal)
          await checkContent(content, signal)
          return content
        }),
      )
      const { placeId, buildId, digest, size } = content
      const text = `verified ${placeId} ${buildId} ${digest} ${formatCount(size, 'byte')}`
      await printResult(io, options, describeContent(content), text)
    })
}

function singleMapCommand(name: string, description: string): Command {
  return addTargetOptions(
    new Command(name)
      .description(description)
      .addOption(placeOption().makeOptionMandatory())
      .addOption(buildOption().makeOptionMandatory()),
  ).addOption(jsonOption())
}

function examples(name: string, more?: string): string {
  const options = name === 'list' ? '' : ' --place 920587237 --build 2026.11.21'
  return `
Examples:
  ingest maps ${name} --store data/games --project demo${options}${more ?? ''}
  INGEST_KEY=… ingest maps ${name} --url http://127.0.0.1:8787 --project demo${options}${more ?? ''}
`
}

function toMapId({ place, build }: MapOptions): MapId {
  return { placeId: place, buildId: build }
}

async function listAllMaps(ingest: Ingest, selection: Partial<MapId>): Promise<MapStatus[]> {
  const all: MapStatus[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await ingest.listMaps({ ...selection, ...(cursor && { cursor }), limit: 1000 })
    all.push(...page.maps)
    cursor = page.next
  }
  return all
}

function describeContent({ placeId, buildId, digest, size, contentType }: MapContent): object {
  return { placeId, buildId, digest, size, contentType }
}

async function findContent(ingest: Ingest, options: MapOptions): Promise<MapContent> {
  const content = await ingest.getMapContent(toMapId(options))
  if (!content) throw mapNotFound('No map is complete', options)
  return content
}

function mapNotFound(what: string, { place, build }: MapOptions): Error {
  return new IngestError('map-not-found', `${what} for place ${place} and build ${build}.`)
}

function formatMapTable(maps: readonly MapStatus[]): string[] {
  const rows = maps.map(({ placeId, buildId, state, frozen, size, publishedAt, digest }) => [
    placeId,
    buildId,
    state,
    frozen ? 'frozen' : 'open',
    String(size),
    toIsoTime(publishedAt) ?? 'not yet',
    digest,
  ])
  return formatTable([['PLACE', 'BUILD', 'STATE', 'BUILD IS', 'BYTES', 'PUBLISHED', 'DIGEST'], ...rows], [4])
}

function formatMapDetails(map: MapStatus): string[] {
  const { pending } = map
  const missing = pending?.missing ?? map.missing
  return [
    `place      ${map.placeId}`,
    `build      ${map.buildId}, ${map.frozenAt === null ? 'open' : `frozen since ${toIsoTime(map.frozenAt)}`}`,
    `state      ${map.state}`,
    `digest     ${map.digest}`,
    `size       ${formatSize(map)}, ${map.contentType}`,
    `published  ${toIsoTime(map.publishedAt) ?? 'not yet'}`,
    ...(pending ? [`pending    ${pending.digest}, ${formatSize(pending)}`] : []),
    ...(missing.length > 0 ? [`missing    ${formatCount(missing.length, 'chunk')}`] : []),
  ]
}

function formatSize({ size, chunks }: { size: number; chunks: number }): string {
  return `${formatCount(size, 'byte')} in ${formatCount(chunks, 'chunk')}`
}
