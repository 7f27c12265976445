import type { Build, ConsumerList } from '../../api/bodies.ts'
import { type Loaded, useLoaded } from '../../api/use-api.ts'
import { formatCount } from '../../format.ts'
import { Value } from '../../parts/value.tsx'
import { findAttention } from './find-attention.ts'
import { useLastDay } from './load-activity.ts'

const consumersPollMs = 60_000
const shownMax = 10

/** Lists what a user should look at, by the rules of docs/console.md. */
export function Attention({ newest }: { newest: Loaded<readonly Build[]> }) {
  const types = useLastDay('type')
  const builds = useLastDay('build')
  const consumers = useLoaded((api, signal) => api.json<ConsumerList>('v1/consumers', { signal }), [], consumersPollMs)
  const all = [types, builds, newest, consumers]
  const isPartial = all.some(({ error }) => error !== undefined)
  if (!isPartial && all.some(({ data }) => data === undefined)) return null
  const findings = findAttention({
    types: types.data,
    builds: builds.data,
    newest: newest.data,
    consumers: consumers.data?.consumers,
    now: Date.now(),
  })
  if (findings.length === 0 && !isPartial) return <p class="hint">Nothing needs attention.</p>
  return (
    <section class="attention" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <ul>
        {findings.slice(0, shownMax).map(({ subject, text, href }) => (
          <li key={`${subject} ${text}`}>
            {href ? <a href={href}>{sentence(subject, text)}</a> : sentence(subject, text)}
          </li>
        ))}
      </ul>
      {findings.length > shownMax && <p class="hint">and {formatCount(findings.length - shownMax)} more.</p>}
      {isPartial && <p class="hint">Not everything could be checked.</p>}
    </section>
  )
}

function sentence(subject: string | undefined, text: string) {
  return (
    <>
      {subject !== undefined && <Value text={subject} />} {text}.
    </>
  )
}
