import type { Api } from '../../api/api.ts'
import { type Problem, RequestError } from '../../api/request-error.ts'
import { type Loaded, useConnection } from '../../api/use-api.ts'
import { Failure } from '../../parts/notice.tsx'
import './now.css'

export interface Health {
  /** Why a batch would fail now; undefined if it would be stored. */
  problem: Problem | undefined
}

export async function loadHealth(api: Api, signal: AbortSignal): Promise<Health> {
  try {
    // a 200 without JSON may be a proxy's page
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

/** Shows whether a batch could be stored now; if not, the reason and the remedy. */
export function HealthNotice({ health: { data, error } }: { health: Loaded<Health> }) {
  const { lostAt } = useConnection()
  if (error?.kind === 'unsupported') return <Failure error={error} what="report whether it is ready" />
  // the page's banner reports a lost connection
  if (!data || error || lostAt !== undefined)
    return <p class="health muted">Whether the server is ready is not known.</p>
  if (!data.problem) {
    return (
      <p class="health">
        <strong class="ready">Ready</strong> A batch sent now would be stored.
      </p>
    )
  }
  const { code = '', title = 'Unavailable', detail = '' } = data.problem
  return (
    <div class="notice failed" role="alert">
      <strong>Not ready: {title}</strong> <code>{code}</code>
      <p>
        {detail} {remedies[code]}
      </p>
    </div>
  )
}
