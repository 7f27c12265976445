import { formatAddress } from '../../address.ts'
import type { BuildPage } from '../../api/bodies.ts'
import { formatCount } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import { PagedTable } from './paged-table.tsx'
import { PublishHint } from './publish-hint.tsx'

/** The builds of the project, in the order of the API, with a field to open one by its id. */
export function Builds() {
  return (
    <>
      <form class="controls" onSubmit={openBuild}>
        <label>
          Open a build
          <input
            name="build"
            required
            maxLength={128}
            autocomplete="off"
            spellcheck={false}
            placeholder="Its exact id"
          />
        </label>
        <button type="submit">Open</button>
      </form>
      <PagedTable
        caption="Builds in the byte order of their ids"
        columns={['Build', 'Frozen', { title: 'Maps', isNumber: true }]}
        load={async (cursor, api, signal) => {
          const { builds, next } = await api.json<BuildPage>('v1/builds', { query: { limit: 100, cursor }, signal })
          return { rows: builds, next }
        }}
        empty={
          <>
            <p>No builds yet: a build appears with its first event or its first map.</p>
            <PublishHint />
          </>
        }
      >
        {({ buildId, frozenAt, maps }) => (
          <tr key={buildId}>
            <td>
              <a href={formatAddress(['maps', buildId])}>
                <Value text={buildId} />
              </a>
            </td>
            <td>{frozenAt === null ? <span class="badge open">open</span> : <Time at={frozenAt} />}</td>
            <td class="number">{formatCount(maps)}</td>
          </tr>
        )}
      </PagedTable>
    </>
  )
}

function openBuild(event: SubmitEvent): void {
  event.preventDefault()
  const buildId = String(new FormData(event.currentTarget as HTMLFormElement).get('build'))
  location.hash = formatAddress(['maps', buildId])
}
