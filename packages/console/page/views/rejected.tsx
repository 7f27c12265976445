import type { Rejections } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { formatCount } from '../format.ts'
import { Content, Notice } from '../parts/notice.tsx'
import { Time } from '../parts/time.tsx'
import { timeZone } from '../time-zone.ts'
import { RejectionGroups } from './rejected/rejection-groups.tsx'

const pollMs = 5_000

/** The rejected events of the last hour by cause. */
export function RejectedView() {
  const loaded = useLoaded((api, signal) => api.json<Rejections>('v1/rejected', { signal }), [], pollMs)
  return (
    <Content loaded={loaded} what="list rejected events">
      {(body) =>
        body.total === 0 ? (
          <Notice kind="empty">
            Nothing was rejected since <Time at={body.from} />.
          </Notice>
        ) : (
          <RejectedOf body={body} />
        )
      }
    </Content>
  )
}

function RejectedOf({ body: { from, total, groups, other } }: { body: Rejections }) {
  const samples = groups.flatMap((group) => group.samples)
  return (
    <>
      <p class="hint">
        {formatCount(total)} rejected since <Time at={from} />
        {other > 0 && `, ${formatCount(other)} of them of other causes`}. Time zone: {timeZone()}.
      </p>
      {samples.every(({ event }) => event === undefined) && <EventsNotKept />}
      <RejectionGroups groups={groups} />
    </>
  )
}

function EventsNotKept() {
  return (
    <p class="hint rejected-hint">
      The events themselves are not kept. <code>ingest serve --keep-rejected</code> keeps them, and they are shown here.
    </p>
  )
}
