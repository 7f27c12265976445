import { useEffect, useState } from 'preact/hooks'
import { formatAddress, replaceQuery } from '../../address.ts'
import type { Api } from '../../api/api.ts'
import type { Activity, Build, BuildPage } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatCount, formatHour } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import { PagedTable } from './paged-table.tsx'
import { PublishHint } from './publish-hint.tsx'

/** How long activity is stored by default, in milliseconds. */
const activityMs = 14 * 86_400_000
const searchDelayMs = 300

type BuildActivity = NonNullable<Activity['groups']>[number]

/** The builds of the project, newest first, with their activity in the last 14 days. */
export function Builds({ search }: { search: string }) {
  const activity = useLoaded(loadActivity, [])
  return (
    <>
      <Search search={search} />
      <PagedTable
        caption="Newest first: builds without events, then the others by their first event. Counts cover the last 14 days."
        columns={[
          'Build',
          'First event',
          'Last event',
          { title: 'Accepted', isNumber: true },
          { title: 'Rejected', isNumber: true },
          { title: 'Maps', isNumber: true },
        ]}
        query={search}
        load={(cursor, api, signal) => loadBuilds({ search, cursor }, api, signal)}
        empty={
          search ? (
            <p>
              No build id contains <Value text={search} />: search for another part of it.
            </p>
          ) : (
            <>
              <p>No builds yet: a build appears with its first event or its first map.</p>
              <PublishHint />
            </>
          )
        }
      >
        {(build) => <BuildRow key={build.buildId} build={build} activity={activity.data?.get(build.buildId)} />}
      </PagedTable>
      <p class="hint">– means not known: only the 20 most frequent builds of each hour are counted.</p>
    </>
  )
}

function Search({ search }: { search: string }) {
  const [text, setText] = useState(search)
  useEffect(() => {
    const timer = setTimeout(() => text !== search && replaceQuery({ search: text || undefined }), searchDelayMs)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <div class="controls">
      <label>
        Find builds
        <input
          type="search"
          name="search"
          maxLength={128}
          autocomplete="off"
          spellcheck={false}
          placeholder="A part of the id"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
    </div>
  )
}

interface PageQuery {
  search: string
  cursor: string | undefined
}

async function loadBuilds({ search, cursor }: PageQuery, api: Api, signal: AbortSignal) {
  const query = { search: search || undefined, cursor }
  const { builds, next } = await api.json<BuildPage>('v1/builds', { query, signal })
  return { rows: builds, next }
}

/** Loads the activity of the last 14 days, by build. */
async function loadActivity(api: Api, signal: AbortSignal): Promise<ReadonlyMap<string | null, BuildActivity>> {
  const now = Date.now()
  const query = { by: 'build', from: new Date(now - activityMs).toISOString(), to: new Date(now).toISOString() }
  const { groups = [] } = await api.json<Activity>('v1/activity', { query, signal })
  return new Map(groups.map((group) => [group.name, group]))
}

function BuildRow({ build, activity }: { build: Build; activity: BuildActivity | undefined }) {
  const { buildId, frozenAt, maps } = build
  return (
    <tr>
      <td>
        <a href={formatAddress(['maps', buildId])}>
          <Value text={buildId} />
        </a>
      </td>
      <td data-label="First event">
        {frozenAt === null ? <span class="badge open">open</span> : <Time at={frozenAt} />}
      </td>
      <td data-label="Last event">{activity ? <Time at={activity.lastAt} format={formatHour} /> : '–'}</td>
      <td data-label="Accepted" class="number">
        {activity ? formatCount(activity.accepted) : '–'}
      </td>
      <td data-label="Rejected" class="number">
        {activity ? formatCount(activity.rejected) : '–'}
      </td>
      <td data-label="Maps" class="number">
        {formatCount(maps)}
      </td>
    </tr>
  )
}
