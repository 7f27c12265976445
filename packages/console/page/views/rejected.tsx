import { useCallback, useMemo, useRef } from 'preact/hooks'
import { type Address, formatAddress } from '../address.ts'
import type { Api } from '../api/api.ts'
import type { Activity, RecentRejections } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { formatCount, formatCountOf } from '../format.ts'
import { formatPath } from '../parts/issue-name.tsx'
import { Content, Notice } from '../parts/notice.tsx'
import { Time } from '../parts/time.tsx'
import { Value } from '../parts/value.tsx'
import { timeZone } from '../time-zone.ts'
import { IssueGroups } from './rejected/issue-groups.tsx'
import { RejectionList } from './rejected/rejection-list.tsx'
import { type GroupName, isInGroup, keyRejections } from './rejected/rejections.ts'

const pollMs = 5_000
const serversMs = 60_000
/** The most that the server keeps of a project. */
const limit = 1_000

/** The last rejected events by issue: `#/rejected?code=invalid_type&path=/buildId` shows those of one group. */
export function RejectedView({ address: { query } }: { address: Address }) {
  const loaded = useLoaded(useUnchanged(loadRejected), [], pollMs)
  const code = query.get('code')
  const path = query.get('path') ?? ''
  const group = useMemo(() => (code === null ? undefined : { code, path }), [code, path])
  return (
    <Content loaded={loaded} what="list rejected events">
      {(body) => (
        <>
          <OneOfServers />
          {body.total === 0 ? <NoneRejected since={body.since} /> : <RejectedOf body={body} group={group} />}
        </>
      )}
    </Content>
  )
}

function loadRejected(api: Api, signal: AbortSignal): Promise<RecentRejections> {
  return api.json<RecentRejections>('v1/rejected', { query: { limit }, signal })
}

/** Returns the body of before if nothing was rejected since, so that nothing is rendered again. */
function useUnchanged(load: typeof loadRejected): typeof loadRejected {
  const before = useRef<RecentRejections>(undefined)
  return useCallback(async (api, signal) => {
    const body = await load(api, signal)
    const { current } = before
    if (current?.total !== body.total || current.since !== body.since) before.current = body
    return before.current ?? body
  }, [])
}

function NoneRejected({ since }: { since: string }) {
  return (
    <Notice kind="empty">
      Nothing was rejected since <Time at={since} /> by the server process that responds.
    </Notice>
  )
}

/** Says so if there are others. */
function OneOfServers() {
  const { data } = useLoaded((api, signal) => api.json<Activity>('v1/activity', { signal }), [], serversMs)
  if (!data || data.servers <= 1) return null
  return (
    <Notice kind="empty">
      One of {formatCount(data.servers)} servers responds, each with a list of what it rejected itself: another may have
      more.
    </Notice>
  )
}

function RejectedOf({ body, group }: { body: RecentRejections; group: GroupName | undefined }) {
  const all = useMemo(() => keyRejections(body.rejected), [body])
  const shown = useMemo(() => (group ? all.filter((each) => isInGroup(each.rejection, group)) : all), [all, group])
  const groups = useMemo(() => <IssueGroups groups={body.groups} chosen={group} />, [body, group])
  const list = useMemo(() => <RejectionList key={group && formatAddress([], group)} rejections={shown} />, [shown])
  return (
    <>
      <p class="hint">
        {formatCount(body.total)} rejected since <Time at={body.since} />.{' '}
        {all.length < body.total ? `The last ${formatCount(all.length)}` : 'They'} are kept in the memory of the server
        process that responds, until it exits. Time zone: {timeZone()}.
      </p>
      <section aria-labelledby="groups">
        <h2 id="groups">By issue</h2>
        {groups}
      </section>
      <section aria-labelledby="rejections">
        <h2 id="rejections">
          {group ? <Value text={`${group.code} at ${formatPath(group.path)}`} /> : 'All events, newest first'}
        </h2>
        {group && (
          <p class="hint rejected-hint">
            {formatCountOf(shown.length, 'event')}. <a href={formatAddress(['rejected'])}>Show all</a>
          </p>
        )}
        {body.rejected.every(({ event }) => event === undefined) && <EventsNotKept />}
        {list}
      </section>
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
