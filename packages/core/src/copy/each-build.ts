import type { BuildEntry, MapStore } from '../maps/map-store.ts'

const pageBuilds = 1_000

/** All builds of a project. */
export async function* eachBuild(store: Pick<MapStore, 'builds'>, projectId: string): AsyncGenerator<BuildEntry> {
  for (let after: string | undefined; ; ) {
    const page = await store.builds(projectId, { after, limit: pageBuilds })
    yield* page
    if (page.length < pageBuilds) return
    after = page.at(-1)?.buildId
  }
}
