import { formatAddress } from '../../address.ts'
import type { RecentRejections } from '../../api/bodies.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { IssueName } from '../../parts/issue-name.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { GroupName } from './rejections.ts'
import './rejected.css'

type Group = RecentRejections['groups'][number]

/** Issues by the number of events, most frequent first. Each is a link that sets or clears the filter. */
export function IssueGroups({ groups, chosen }: { groups: RecentRejections['groups']; chosen: GroupName | undefined }) {
  const most = groups[0]?.count ?? 1
  return (
    <ol class="issue-groups">
      {groups.map((group) => (
        <li key={`${group.code} ${group.path}`}>
          <GroupLink group={group} isChosen={group.code === chosen?.code && group.path === chosen.path} most={most} />
        </li>
      ))}
    </ol>
  )
}

function GroupLink({ group, isChosen, most }: { group: Group; isChosen: boolean; most: number }) {
  const { code, path, message, count, lastAt } = group
  return (
    <a
      href={formatAddress(['rejected'], isChosen ? {} : { code, path })}
      aria-current={isChosen ? 'true' : undefined}
      title={isChosen ? 'Show all' : `Show the ${formatCountOf(count, 'event')}`}
    >
      <strong class="number">{formatCount(count)}</strong>
      <span>
        <IssueName code={code} path={path} />
        <span class="message">
          <Value text={message} />
        </span>
      </span>
      <span class="last">
        last <Time at={lastAt} />
      </span>
      <span class="share" style={{ width: `${(100 * count) / most}%` }} />
    </a>
  )
}
