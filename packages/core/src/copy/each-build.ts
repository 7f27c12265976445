import type { MapStore } from '../store.ts'
import type { BuildEntry, BuildPosition, FoundBuilds } from '../store-types.ts'

const pageBuilds = 1_000

/** All builds of a project. */
export async function* eachBuild(store: Pick<MapStore, 'builds'>, projectId: string): AsyncGenerator<BuildEntry> {
  let after: BuildPosition | undefined
  do {
    const { builds, last }: FoundBuilds = await store.builds(projectId, { after, limit: pageBuilds })
    yield* builds
    after = last ?? (builds.length === pageBuilds ? builds.at(-1) : undefined)
  } while (after)
}
