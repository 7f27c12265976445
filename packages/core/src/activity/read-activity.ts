import { IngestError } from '../error.ts'
import { nextReadStep } from '../read-steps.ts'
import type { ActivityStore, EntryStore } from '../store.ts'
import type { ActivityRow, ActivitySpan } from '../store-types.ts'
import {
  type Activity,
  type ActivityGroup,
  type ActivityOptions,
  type ActivityRangeOptions,
  type ActivityReader,
  hourMs,
  parseActivityRange,
  type RejectionGroup,
  type Rejections,
  type StepRange,
} from './activity.ts'
import type { ActivityCounter } from './activity-counter.ts'
import {
  addToCause,
  type CauseCounts,
  copyOfCause,
  keyOfCause,
  mostCauses,
  mostNames,
  samplesMax,
  sortedServerIds,
} from './counts.ts'
import type { OutcomesBody, RejectedBody } from './row-body.ts'

/** The most groups of a response. */
const groupsMax = 100
/** The most groups in memory while reading. Beyond, all but the most frequent are counted together. */
const groupsReadMax = 1_000
/** The most bytes of texts of events in a response, which is encoded in one turn. The newest of each group come first. */
const responseTextsBytesMax = 524_288
/** The bytes of rows that one step decodes. */
const stepBytes = 262_144

export interface ReadActivityContext {
  store: Pick<ActivityStore, 'activity'> & Pick<EntryStore, 'entry'>
  counter: Pick<ActivityCounter, 'unputRows'>
  /** In milliseconds since 1970. */
  now(): number
}

export function createActivityReader(context: ReadActivityContext): (projectId: string) => ActivityReader {
  return (projectId) => ({
    getActivity: (options = {}) => getActivity(context, projectId, options),
    listRejected: (options = {}) => listRejected(context, projectId, options),
  })
}

async function getActivity(
  context: ReadActivityContext,
  projectId: string,
  { by, ...options }: ActivityOptions,
): Promise<Activity> {
  if (by !== undefined && by !== 'type' && by !== 'build') {
    throw new IngestError('invalid-argument', 'by must be type or build.')
  }
  const range = parseActivityRange(options, context.now)
  const steps = stepsOf(range, (at) => ({ at, accepted: 0, duplicates: 0, rejected: 0 }))
  const groups = createNameGroups(steps.length)
  const servers = new Set<string>()
  const span = range.stepMs < hourMs ? 'minute' : 'hour'
  for await (const { at, step, body } of readRows<OutcomesBody>(context, projectId, { ...range, span }, options)) {
    const sum = steps[step] as Activity['steps'][number]
    sum.accepted += body.accepted
    sum.duplicates += body.duplicates
    sum.rejected += body.rejected
    servers.add(body.server)
    if (by) groups.add(at, step, by === 'type' ? body.types : body.builds)
  }
  return { ...toRange(range), servers: servers.size, steps, ...(by && { groups: groups.most() }) }
}

async function listRejected(
  context: ReadActivityContext,
  projectId: string,
  options: ActivityRangeOptions,
): Promise<Rejections> {
  const range = parseActivityRange(options, context.now)
  const steps = stepsOf(range, (at) => ({ at, rejected: 0 }))
  const groups = createRejectionGroups(steps.length)
  let total = 0
  const span = range.stepMs < hourMs ? 'rejected-minute' : 'rejected-hour'
  for await (const { step, body } of readRows<RejectedBody>(context, projectId, { ...range, span }, options)) {
    total += body.rejected
    ;(steps[step] as Rejections['steps'][number]).rejected += body.rejected
    for (const rejection of body.rejections) groups.add(step, rejection)
  }
  const most = await withKeyNames(context, projectId, groups.most())
  const other = most.reduce((rest, { count }) => rest - count, total)
  return { ...toRange(range), total, steps, groups: most, other }
}

/** Reads the names of all keys at once, as a project is one entry of the store. */
async function withKeyNames(
  { store }: ReadActivityContext,
  projectId: string,
  groups: readonly CountedGroup[],
): Promise<RejectionGroup[]> {
  const project = groups.some(({ keyId }) => keyId !== null) ? await store.entry('project', projectId) : undefined
  const names = new Map(project?.keys.map(({ keyId, name }) => [keyId, name]))
  return groups.map((group) => ({ ...group, keyName: names.get(group.keyId ?? '') ?? null }))
}

function toRange({ from, to, stepMs }: StepRange): Pick<Activity, 'from' | 'to' | 'stepSeconds'> {
  return { from, to, stepSeconds: stepMs / 1000 }
}

function stepsOf<T>({ from, to, stepMs }: StepRange, make: (at: number) => T): T[] {
  return Array.from({ length: (to - from) / stepMs }, (_, i) => make(from + i * stepMs))
}

interface ReadRow<Body> {
  at: number
  /** The index of the step of the row. */
  step: number
  body: Body
}

/** The rows of all processes, including those that this one has not put yet. */
async function* readRows<Body>(
  { store, counter }: ReadActivityContext,
  projectId: string,
  { from, to, stepMs, span }: StepRange & { span: ActivitySpan },
  { onScan = () => {} }: ActivityRangeOptions,
): AsyncGenerator<ReadRow<Body>, void> {
  let bytes = 0
  for await (const { at, body } of mergeRows()) {
    onScan(body.length)
    bytes += body.length
    if (bytes >= stepBytes) {
      bytes = 0
      await nextReadStep(projectId)
    }
    yield { at, step: Math.floor((at - from) / stepMs), body: JSON.parse(body) }
  }

  async function* mergeRows(): AsyncGenerator<ActivityRow, void> {
    // before the store is read, so that no row is put in between
    const unput = counter.unputRows(projectId, span).filter(({ at }) => at >= from && at < to)
    const replaced = new Set(unput.map(({ writer }) => writer))
    for await (const row of store.activity(projectId, { span, from, to })) if (!replaced.has(row.writer)) yield row
    yield* unput
  }
}

/** While reading, a group has the counts of its own steps only: most of many names occur in few steps. */
type NameGroup = Omit<ActivityGroup, 'counts'> & { counts: Map<number, number> }

/** The groups by name; a bounded number of them is in memory. */
function createNameGroups(stepCount: number) {
  const groups = new Map<string, NameGroup>()
  const others = emptyGroup(null)

  function groupOf(name: string | null): NameGroup {
    if (name === null) return others
    const found = groups.get(name)
    if (found) return found
    if (groups.size >= groupsReadMax) keepMost()
    const group = emptyGroup(name)
    groups.set(name, group)
    return group
  }

  /** Returns the most frequent groups, and counts the events of all others without a name. */
  function keepMost(): NameGroup[] {
    const sorted = mostNames(groups)
    for (const [name, group] of sorted.slice(groupsMax)) {
      groups.delete(name)
      addGroup(others, group)
    }
    return sorted.slice(0, groupsMax).map(([, group]) => group)
  }

  return {
    add(at: number, step: number, names: OutcomesBody['types']): void {
      for (const [name, accepted, rejected] of names) {
        const counts = new Map([[step, accepted]])
        addGroup(groupOf(name), { name, accepted, rejected, firstAt: at, lastAt: at, counts })
      }
    },
    most(): ActivityGroup[] {
      const most = keepMost()
      if (others.accepted + others.rejected > 0) most.push(others)
      return most.map((group) => ({
        ...group,
        counts: Array.from({ length: stepCount }, (_, step) => group.counts.get(step) ?? 0),
      }))
    },
  }
}

function emptyGroup(name: string | null): NameGroup {
  const [firstAt, lastAt] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  return { name, accepted: 0, rejected: 0, firstAt, lastAt, counts: new Map() }
}

function addGroup(sum: NameGroup, { accepted, rejected, firstAt, lastAt, counts }: NameGroup): void {
  sum.accepted += accepted
  sum.rejected += rejected
  sum.firstAt = Math.min(sum.firstAt, firstAt)
  sum.lastAt = Math.max(sum.lastAt, lastAt)
  for (const [step, count] of counts) sum.counts.set(step, (sum.counts.get(step) ?? 0) + count)
}

type CountedGroup = Omit<RejectionGroup, 'keyName'>

/** The groups by cause; a bounded number of them is in memory. */
function createRejectionGroups(stepCount: number) {
  const groups = new Map<string, CountedGroup>()

  return {
    add(step: number, cause: CauseCounts): void {
      const key = keyOfCause(cause)
      const found = groups.get(key)
      if (found) addToCause(found, cause)
      else if (groups.size >= groupsReadMax) for (const [key] of mostCauses(groups).slice(groupsMax)) groups.delete(key)
      const group = found ?? { ...copyOfCause(cause), counts: new Array<number>(stepCount).fill(0) }
      groups.set(key, group)
      group.counts[step] = (group.counts[step] ?? 0) + cause.count
    },
    most(): CountedGroup[] {
      const most = mostCauses(groups)
        .slice(0, groupsMax)
        .map(([, group]) => ({ ...group, serverIds: sortedServerIds(group) }))
      limitTexts(most)
      return most
    },
  }
}

function limitTexts(groups: readonly CountedGroup[]): void {
  let left = responseTextsBytesMax
  for (let index = 0; index < samplesMax; index++) {
    for (const { samples } of groups) {
      const sample = samples[index]
      const bytes = Buffer.byteLength(sample?.event ?? '')
      if (bytes <= left) left -= bytes
      else delete sample?.event
    }
  }
}
