import { type Ingest, IngestError, type MapContent, type MapId, type MapStatus } from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { Command } from 'commander'
import { addTargetOptions, connect, parseTarget, requireProject } from '../connect.ts'
import { checkContent, checkFile } from '../files/check-content.ts'
import { writeFile } from '../files/write-file.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { buildOption, jsonOption, nonEmpty, parsePath, placeOption } from '../options.ts'
import { formatCount, formatTable, toIsoTime } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface JsonOption {
  json?: true
}

interface MapOptions {
  place: string
  build: string
}

/** `ingest maps list | show | download | verify`. */
export function mapsCommand(io: Io): Command {
  const maps = new Command('maps')
    .description('list, show, download and verify published maps')
    .addHelpText('after', examples('list'))
  maps.addCommand(mapsListCommand(io))
  maps.addCommand(mapsShowCommand(io))
  maps.addCommand(mapsDownloadCommand(io))
  maps.addCommand(mapsVerifyCommand(io))
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
    .action(async ({ place, build, json }: Partial<MapOptions> & JsonOption) => {
      const target = parseTarget(command)
      const maps = await connect(io, target, async (ingest, embedded) => {
        await requireProject(embedded, target.project)
        return listAllMaps(ingest, { ...(place && { placeId: place }), ...(build && { buildId: build }) })
      })
      if (json) await writeJson(io, { ok: true, maps: wire.toWire(wire.MapPage, { maps, next: null }).maps })
      else await writeStdout(io, `${formatMapTable(maps).join('\n')}\n`)
    })
}

function mapsShowCommand(io: Io): Command {
  const command = singleMapCommand('show', 'show the state of a map')
  return command.addHelpText('after', examples('show')).action(async (options: MapOptions & JsonOption) => {
    const target = parseTarget(command)
    const map = await connect(io, target, (ingest) => ingest.getMap(toMapId(options)))
    if (!map) throw await mapNotFound('No map is published', options)
    if (options.json) await writeJson(io, { ok: true, ...wire.toWire(wire.MapStatus, map) })
    else await writeStdout(io, `${formatMapDetails(map).join('\n')}\n`)
  })
}

function mapsDownloadCommand(io: Io): Command {
  const command = singleMapCommand('download', 'download a complete map, and verify its digest')
  return command
    .option('--output <file>', 'file to write; standard output by default', parsePath)
    .addHelpText('after', examples('download', ' --output map.json'))
    .action(async (options: MapOptions & JsonOption & { output?: string }) => {
      const target = parseTarget(command)
      const { output, json } = options
      if (json && output === undefined)
        command.error('--json requires --output: standard output holds the bytes of the map')
      const { placeId, buildId, digest, size, contentType } = await abortOnSignal(
        io,
        'the map was not downloaded',
        (signal) =>
          connect(io, target, async (ingest) => {
            const content = await findContent(ingest, options)
            if (output === undefined) await checkContent(content, signal, (bytes) => writeStdout(io, bytes))
            else await writeFile(output, (write) => checkContent(content, signal, write))
            return content
          }),
      )
      if (json) await writeJson(io, { ok: true, placeId, buildId, digest, size, contentType, file: output })
      else if (output !== undefined) await writeStdout(io, `downloaded ${output}\n`)
    })
}

function mapsVerifyCommand(io: Io): Command {
  const command = singleMapCommand('verify', 'read a complete map, and verify its digest and size')
  return command
    .option('--file <file>', 'compare a file with the map too', nonEmpty)
    .addHelpText('after', examples('verify', ' --file map.json'))
    .action(async (options: MapOptions & JsonOption & { file?: string }) => {
      const target = parseTarget(command)
      const { file, json } = options
      const content = await abortOnSignal(io, 'the map was not verified', (signal) =>
        connect(io, target, async (ingest) => {
          const content = await findContent(ingest, options)
          if (file !== undefined) await checkFile(content, file, signal)
          await checkContent(content, signal)
          return content
        }),
      )
      const { placeId, buildId, digest, size, contentType } = content
      if (json) await writeJson(io, { ok: true, placeId, buildId, digest, size, contentType })
      else await writeStdout(io, `verified ${placeId} ${buildId} ${digest} ${formatCount(size, 'byte')}\n`)
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

async function findContent(ingest: Ingest, options: MapOptions): Promise<MapContent> {
  const content = await ingest.getMapContent(toMapId(options))
  if (!content) throw await mapNotFound('No map is complete', options)
  return content
}

async function mapNotFound(what: string, { place, build }: MapOptions): Promise<Error> {
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
    `size       ${formatCount(map.size, 'byte')} in ${formatCount(map.chunks, 'chunk')}, ${map.contentType}`,
    `published  ${toIsoTime(map.publishedAt) ?? 'not yet'}`,
    ...(pending
      ? [
          `pending    ${pending.digest}, ${formatCount(pending.size, 'byte')} in ${formatCount(pending.chunks, 'chunk')}`,
        ]
      : []),
    ...(missing.length > 0 ? [`missing    ${formatCount(missing.length, 'chunk')}`] : []),
  ]
}
