import type { Api } from '../../api/api.ts'
import { type Problem, RequestError } from '../../api/request-error.ts'
import { type Loaded, useConnection } from '../../api/use-api.ts'
import { Failure } from '../../parts/notice.tsx'
import './now.css'

interface Health {
  /** Why a batch would fail now; undefined if it would be stored. */
  problem: Problem | undefined
}

export async function loadHealth(api: Api, signal: AbortSignal): Promise<Health> {
  try {
    await api.json('readyz', { signal })
    return { problem: undefined }
  } catch (error) {
    if (error instanceof RequestError && error.kind === 'unavailable') return { problem: error.problem }
    throw error
  }
}

const remedies: Readonly<Record<string, string>> = {
  draining: 'The server is stopping. Senders keep their batches and send them to the server that starts next.',
  'disk-full': 'Free disk space on the server: it then stores events again by itself.',
  'store-failed': 'The server exits. Start it again; if it fails again, check the disk.',
  'store-locked': 'Stop the other process that writes to the same directory.',
  'store-unavailable': 'Check that the database runs and that the server can reach it.',
  'store-closed': 'The program that serves the API has closed its store: start it again.',
}

/**
 * Shows what failed, or whether a batch could be stored now; if not, the reason and the remedy. Other parts of the view
 * show no errors.
 */
export function HealthNotice({ health, others }: { health: Loaded<Health>; others: readonly Loaded<unknown>[] }) {
  const { lostAt } = useConnection()
  const error = health.error ?? others.find(({ error }) => error)?.error
  const problem = health.error ? undefined : health.data?.problem
  // the page's banner reports a lost connection
  if (lostAt !== undefined || error?.kind === 'offline' || !(health.data || error))
    return <p class="health muted">It is not known whether the server is ready.</p>
  if (problem) return <NotReady problem={problem} />
  if (error) return <Failure error={error} what={health.error ? 'report whether it is ready' : 'return statistics'} />
  return (
    <p class="health">
      <strong class="ready">Ready</strong> A batch sent now would be stored.
    </p>
  )
}

function NotReady({ problem: { code = '', title = 'Unavailable', detail = '' } }: { problem: Problem }) {
  return (
    <div class="notice failed" role="alert">
      <strong>Not ready: {title}</strong> <code>{code}</code>
      <p>
        {detail} {remedies[code]}
      </p>
    </div>
  )
}
