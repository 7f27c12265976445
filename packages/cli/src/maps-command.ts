import type { Ingest, MapContent, MapId, MapStatus } from '@ingest/core'
import { Command } from 'commander'
import { checkContent, checkFile } from './check-content.ts'
import { formatTable } from './format-table.ts'
import { notEmpty } from './options.ts'
import { untilSignal } from './until-signal.ts'
import { addTargetOptions, buildOption, placeOption, type Target, targetOf, withTarget } from './with-target.ts'
import { writeFile } from './write-file.ts'
import { writeOut } from './write-out.ts'

interface MapOptions {
  place: string
  build: string
}

/** `ingest maps list | show | download | verify`. */
export function mapsCommand(): Command {
  const maps = new Command('maps').description('look at published maps, and get them back')
  maps.addCommand(listMaps())
  maps.addCommand(showMap())
  maps.addCommand(downloadMap())
  maps.addCommand(verifyMap())
  return maps
}

function listMaps(): Command {
  const command = addTargetOptions(
    new Command('list')
      .description('show the maps of a project, complete or not, by build and then by place')
      .addOption(placeOption())
      .addOption(buildOption()),
  )
  return command
    .option('--json', 'one JSON object a line')
    .action(async ({ place, build, json }: Partial<MapOptions> & { json?: true }) => {
      const target = targetOf(command)
      await withTarget(target, async (ingest) => {
        const maps = await allMaps(ingest, target, {
          ...(place && { placeId: place }),
          ...(build && { buildId: build }),
        })
        const lines = json ? maps.map((map) => JSON.stringify(map)) : table(maps)
        if (lines.length > 0) await writeOut(`${lines.join('\n')}\n`)
      })
    })
}

function showMap(): Command {
  const command = oneMap('show', 'show what is known of a map')
  return command.option('--json', 'one JSON object').action(async (options: MapOptions & { json?: true }) => {
    const target = targetOf(command)
    await withTarget(target, async (ingest) => {
      const map = await ingest.map(target.project, idOf(options))
      if (!map) throw await notFound('Nothing is published', options)
      await writeOut(`${options.json ? JSON.stringify(map) : details(map).join('\n')}\n`)
    })
  })
}

function downloadMap(): Command {
  const command = oneMap('download', 'write the bytes of a complete map, and check their digest')
  return command
    .option('--output <file>', 'where to; standard output without', notEmpty)
    .action(async (options: MapOptions & { output?: string }) => {
      const target = targetOf(command)
      const { output } = options
      await untilSignal('nothing was downloaded', (signal) =>
        withTarget(target, async (ingest) => {
          const content = await findContent(ingest, target, options)
          if (output === undefined) await checkContent(content, signal, writeOut)
          else await writeFile(output, (write) => checkContent(content, signal, write))
        }),
      )
      if (output !== undefined) await writeOut(`downloaded ${output}\n`)
    })
}

function verifyMap(): Command {
  const command = oneMap('verify', 'read a complete map, and compare its digest and size')
  return command
    .option('--file <file>', 'compare it with this file, too', notEmpty)
    .action(async (options: MapOptions & { file?: string }) => {
      const target = targetOf(command)
      const { file } = options
      const content = await untilSignal('nothing was found', (signal) =>
        withTarget(target, async (ingest) => {
          const content = await findContent(ingest, target, options)
          if (file !== undefined) await checkFile(content, file, signal)
          await checkContent(content, signal)
          return content
        }),
      )
      await writeOut(`verified ${content.placeId} ${content.buildId} ${content.digest} ${content.size} bytes\n`)
    })
}

function oneMap(name: string, description: string): Command {
  return addTargetOptions(
    new Command(name)
      .description(description)
      .addOption(placeOption().makeOptionMandatory())
      .addOption(buildOption().makeOptionMandatory()),
  )
}

function idOf({ place, build }: MapOptions): MapId {
  return { placeId: place, buildId: build }
}

async function allMaps(ingest: Ingest, { project }: Target, selection: Partial<MapId>): Promise<MapStatus[]> {
  const all: MapStatus[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await ingest.maps(project, { ...selection, ...(cursor && { cursor }), limit: 1000 })
    all.push(...page.maps)
    cursor = page.next
  }
  return all
}

async function findContent(ingest: Ingest, { project }: Target, options: MapOptions): Promise<MapContent> {
  const content = await ingest.readMap(project, idOf(options))
  if (!content) throw await notFound('No map is complete', options)
  return content
}

async function notFound(what: string, { place, build }: MapOptions): Promise<Error> {
  const { IngestError } = await import('@ingest/core')
  return new IngestError('map-not-found', `${what} for place ${place} and build ${build}.`)
}

function table(maps: readonly MapStatus[]): string[] {
  const rows = maps.map(({ placeId, buildId, state, frozen, size, publishedAt, digest }) => [
    placeId,
    buildId,
    state,
    frozen ? 'frozen' : 'open',
    String(size),
    publishedAt ?? 'not yet',
    digest,
  ])
  return formatTable([['PLACE', 'BUILD', 'STATE', 'BUILD IS', 'BYTES', 'PUBLISHED', 'DIGEST'], ...rows], [4])
}

function details(map: MapStatus): string[] {
  const { pending } = map
  const missing = pending?.missing ?? map.missing
  return [
    `place      ${map.placeId}`,
    `build      ${map.buildId}, ${map.frozenAt === null ? 'open' : `frozen since ${map.frozenAt}`}`,
    `state      ${map.state}`,
    `digest     ${map.digest}`,
    `size       ${map.size} bytes in ${map.chunks} chunks, ${map.contentType}`,
    `published  ${map.publishedAt ?? 'not yet'}`,
    ...(pending ? [`pending    ${pending.digest}, ${pending.size} bytes in ${pending.chunks} chunks`] : []),
    ...(missing.length > 0 ? [`missing    ${missing.length} chunks`] : []),
  ]
}
