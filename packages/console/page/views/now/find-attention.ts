import { formatAddress } from '../../address.ts'
import type { Activity, Build, ConsumerList } from '../../api/bodies.ts'
import { formatCount, formatMinute, formatShare, formatSpan } from '../../format.ts'
import { beginningsOf, busyCountsOf, trendOf } from './trend.ts'

/** Something that a user should look at. */
interface Finding {
  /** The type, build or consumer; undefined for the whole project. */
  subject?: string
  /** Completes the sentence that the subject begins. */
  text: string
  /** The view that shows it. */
  href?: string
}

export interface AttentionInputs {
  /** The activity of the last day, by type. */
  types: Activity | undefined
  /** The activity of the last day, by build. */
  builds: Activity | undefined
  /** Newest first. */
  newest: readonly Build[] | undefined
  consumers: ConsumerList['consumers'] | undefined
  /** In milliseconds since 1970. */
  now: number
}

// the thresholds of docs/alerts.yml
const rejectedShareMin = 0.01
const rejectedMin = 20
const consumerLagSecondsMin = 3_600

/** What needs attention, by the rules of docs/console.md; most urgent first. */
export function findAttention(inputs: AttentionInputs): Finding[] {
  const { types, builds, newest = [], consumers = [], now } = inputs
  return [
    ...(types ? findStopped(types, now) : []),
    ...(builds ? findRejectedBuilds(builds, newest) : []),
    ...(builds ? findBuildsWithoutMap(builds, newest) : []),
    ...findBehind(consumers),
  ]
}

/** Whether the project is silent, or otherwise which of its types are. */
function findStopped(types: Activity, now: number): Finding[] {
  // the last step has not ended
  const received = types.steps.slice(0, -1).map((step) => step.accepted + step.duplicates + step.rejected)
  if (trendOf(received) === 'stopped') {
    return [{ text: 'No events are arriving', href: formatAddress(['now'], { range: '24h' }) }]
  }
  return named(types)
    .filter(({ counts }) => trendOf(busyCountsOf(types, counts)) === 'stopped')
    .map(({ name, lastAt }) => ({
      subject: name,
      text: `has stopped arriving: none since ${formatMinute(Date.parse(lastAt) + 60_000, now)}`,
      href: formatAddress(['live'], { type: name }),
    }))
}

/** Builds with a larger share of rejected events than the build before them. */
function findRejectedBuilds(builds: Activity, newest: readonly Build[]): Finding[] {
  const beginningOf = beginningsOf(newest)
  const inOrder = named(builds).sort((a, b) => beginningOf(a) - beginningOf(b))
  return inOrder.flatMap((build, index) => {
    const before = inOrder[index - 1]
    const share = shareOf(build)
    if (build.rejected <= rejectedMin || share <= rejectedShareMin || (before && share <= shareOf(before))) return []
    const ofBefore = before ? `, ${formatShare(before.rejected, before.accepted + before.rejected)} before it` : ''
    return {
      subject: build.name,
      text: `has ${formatShare(build.rejected, build.accepted + build.rejected)} of its events rejected${ofBefore}`,
      href: formatAddress(['rejected'], { range: '24h', build: build.name }),
    }
  })
}

/** Builds that send events and have no map, unless no build of the project has one. */
function findBuildsWithoutMap(builds: Activity, newest: readonly Build[]): Finding[] {
  if (newest.every(({ maps }) => maps === 0)) return []
  const isActive = new Set(named(builds).flatMap(({ name, accepted }) => (accepted > 0 ? [name] : [])))
  return newest
    .filter(({ buildId, maps }) => maps === 0 && isActive.has(buildId))
    .map(({ buildId }) => ({
      subject: buildId,
      text: 'sends events and has no map',
      href: formatAddress(['maps', buildId]),
    }))
}

function findBehind(consumers: ConsumerList['consumers']): Finding[] {
  return consumers.flatMap(({ name, lag }) => {
    if (lag === null) return { subject: name, text: 'is a consumer with a cursor of another store' }
    if (lag.seconds <= consumerLagSecondsMin) return []
    const unread = `${lag.exact ? '' : 'at least '}${formatCount(lag.events)}`
    const text = `is a consumer that has not read for ${formatSpan(lag.seconds * 1000)}: ${unread} behind`
    return { subject: name, text }
  })
}

type NamedVolume = NonNullable<Activity['groups']>[number] & { name: string }

function named({ groups = [] }: Activity): NamedVolume[] {
  return groups.filter((group): group is NamedVolume => group.name !== null)
}

function shareOf({ accepted, rejected }: NamedVolume): number {
  return rejected / Math.max(1, accepted + rejected)
}
