import type { BuildEntry, BuildSelection } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { readFrozenAt, type SlicedReads } from '../log/event-log.ts'

/** The most keys that one step reads. */
const keysAtOnce = 256
const projectBytes = 4

/** The builds of a project, in the order of their UTF-8: those that are frozen, and those that have maps. */
export async function listBuilds(
  table: (name: TableName) => Rows,
  { readSnapshot, nextStep }: SlicedReads,
  project: number,
  { after, limit }: BuildSelection,
): Promise<BuildEntry[]> {
  const freezes = table('freezes')
  // no build id has a U+0000 in it, so this follows the keys of the build and its maps directly
  const start = projectKey(project, after === undefined ? undefined : Buffer.from(`${after}\u0001`))

  async function* namesIn(rows: Rows): AsyncGenerator<Buffer, undefined> {
    for (let from = start; ; ) {
      const range = { start: from, end: projectKey(project + 1), limit: keysAtOnce }
      const keys = readSnapshot(() => [...rows.getKeys(range)])
      for (const key of keys) yield key.subarray(projectBytes)
      const last = keys.at(-1)
      if (!last || keys.length < keysAtOnce) return
      from = Buffer.concat([last, Buffer.of(0)])
      await nextStep()
    }
  }

  const frozenNames = namesIn(freezes)
  const mapNames = namesIn(table('maps'))
  const builds: BuildEntry[] = []
  let frozen = (await frozenNames.next()).value
  let map = buildOf((await mapNames.next()).value)
  while (builds.length < limit) {
    const next = lesserOf(frozen, map)
    if (!next) break
    const entry: BuildEntry = { buildId: next.toString(), maps: 0 }
    if (frozen?.equals(next)) {
      entry.frozenAt = readSnapshot(() => readFrozenAt(freezes, project, entry.buildId)) as number
      frozen = (await frozenNames.next()).value
    }
    while (map?.equals(next)) {
      entry.maps++
      map = buildOf((await mapNames.next()).value)
    }
    builds.push(entry)
  }
  return builds
}

/** The build of the name of a map. */
function buildOf(name: Buffer | undefined): Buffer | undefined {
  return name?.subarray(0, name.indexOf(0))
}

function lesserOf(a: Buffer | undefined, b: Buffer | undefined): Buffer | undefined {
  if (!a || !b) return a ?? b
  return Buffer.compare(a, b) <= 0 ? a : b
}
