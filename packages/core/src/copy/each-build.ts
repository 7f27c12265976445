import type { BuildEntry, MapStore } from '../maps/map-store.ts'

const pageBuilds = 1_000

/** All builds of a project. */
export async function* eachBuild(store: Pick<MapStore, 'builds'>, projectId: string): AsyncGenerator<BuildEntry> {
  for (let after: BuildEntry | undefined; ; ) {
    const { builds }: { builds: BuildEntry[] } = await store.builds(projectId, { after, limit: pageBuilds })
    yield* builds
    if (builds.length < pageBuilds) return
    after = builds.at(-1)
  }
}
