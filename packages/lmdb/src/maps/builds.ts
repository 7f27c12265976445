import {
  type BuildEntry,
  type BuildPosition,
  type BuildSelection,
  buildsSearchedMax,
  type FoundBuilds,
  foldBuildId,
} from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { type SlicedReads, stepLookupsMax, stepRowsMax } from '../log/snapshot-reader.ts'

const nameOffset = 4
const timeBytes = 8
/** After every time: no positive double has these bits. */
const openTime = Buffer.alloc(timeBytes, 0xff)
const nothing = Buffer.alloc(0)

/** The key of a build in the table `newest-builds`: in reverse, open builds are first, then the newest freeze. */
function newestKey(project: number, { buildId, frozenAt }: BuildPosition): Buffer {
  const time = Buffer.from(openTime)
  // the bits of positive doubles are in the order of their values
  if (frozenAt !== undefined) time.writeDoubleBE(Math.max(0, frozenAt))
  return projectKey(project, Buffer.concat([time, Buffer.from(buildId)]))
}

function parseNewestKey(key: Buffer): BuildPosition {
  const time = key.subarray(nameOffset, nameOffset + timeBytes)
  const buildId = key.toString('utf8', nameOffset + timeBytes)
  return time.equals(openTime) ? { buildId } : { buildId, frozenAt: time.readDoubleBE() }
}

/** Lists a build that has its first map; in a write transaction. */
export function addOpenBuild(newest: Rows, project: number, buildId: string): void {
  newest.put(newestKey(project, { buildId }), nothing)
}

/** Removes an open build whose last map is gone. */
export function removeOpenBuild(newest: Rows, project: number, buildId: string): void {
  newest.remove(newestKey(project, { buildId }))
}

/** Lists a build that has frozen; in the transaction that freezes it. */
export function addFrozenBuild(newest: Rows, project: number, buildId: string, frozenAt: number): void {
  removeOpenBuild(newest, project, buildId)
  newest.put(newestKey(project, { buildId, frozenAt }), nothing)
}

export function hasFrozenBuild(newest: Rows, project: number, buildId: string, frozenAt: number): boolean {
  return newest.doesExist(newestKey(project, { buildId, frozenAt }))
}

/** Lists builds as `builds` of the contract does. */
export async function listBuilds(
  table: (name: TableName) => Rows,
  reads: SlicedReads,
  project: number,
  { search = '', after, limit }: BuildSelection,
): Promise<FoundBuilds> {
  const { readSnapshot, nextStep } = reads
  const newest = table('newest-builds')
  const maps = table('maps')
  const keysPerStep = search === '' ? Math.min(limit, stepRowsMax) : stepRowsMax

  async function* following(): AsyncGenerator<BuildPosition, undefined> {
    for (let start = after ? newestKey(project, after) : projectKey(project + 1); ; ) {
      // in reverse, the start is the later end, and is in the range
      const range = { start, end: projectKey(project), reverse: true, limit: keysPerStep + 1 }
      const keys = readSnapshot(() => [...newest.getKeys(range)])
      if (keys[0]?.equals(start)) keys.shift()
      for (const key of keys) yield parseNewestKey(key)
      const last = keys.at(-1)
      if (!last || keys.length < keysPerStep) return
      start = last
      await nextStep()
    }
  }

  const builds: BuildEntry[] = []
  let searched = 0
  let counted = 0
  for await (const build of following()) {
    searched++
    if (foldBuildId(build.buildId).includes(search)) {
      if (++counted % stepLookupsMax === 0) await nextStep()
      const count = await countMaps(maps, reads, project, build.buildId)
      // the last map of an open build may have gone since it was listed
      if (count > 0 || build.frozenAt !== undefined) builds.push({ ...build, maps: count })
    }
    if (builds.length === limit) break
    if (searched === buildsSearchedMax) return { builds, last: build }
  }
  return { builds }
}

/** Counts in steps: the number of maps of a build has no limit. */
async function countMaps(
  maps: Rows,
  { readSnapshot, nextStep }: SlicedReads,
  project: number,
  buildId: string,
): Promise<number> {
  const { start, end } = mapsOf(project, buildId)
  for (let count = 0, from = start; ; ) {
    const keys = readSnapshot(() => [...maps.getKeys({ start: from, end, limit: stepRowsMax })])
    count += keys.length
    const last = keys.at(-1)
    if (!last || keys.length < stepRowsMax) return count
    from = Buffer.concat([last, Buffer.of(0)])
    await nextStep()
  }
}

export function hasMaps(maps: Rows, project: number, buildId: string): boolean {
  return [...maps.getKeys({ ...mapsOf(project, buildId), limit: 1 })].length > 0
}

/** The range of the maps of a build: no build id has a U+0000 in it. */
function mapsOf(project: number, buildId: string): { start: Buffer; end: Buffer } {
  const keyOf = (end: string) => projectKey(project, Buffer.from(buildId + end))
  return { start: keyOf('\0'), end: keyOf('\u0001') }
}
