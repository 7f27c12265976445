import { useEffect, useMemo } from 'preact/hooks'
import { useApi } from '../api/use-api.ts'
import { type CallWorker, createWorkerClient, type WorkerPort } from './call-worker.ts'

/**
 * The worker of this component: it starts with the first call, and ends with the component or the session. That frees
 * its memory. Use it once per view.
 */
export function useWorker(): CallWorker {
  const api = useApi()
  const client = useMemo(() => createWorkerClient(api, startWorker), [api])
  useEffect(() => client.end, [client])
  return client.call
}

function startWorker(): WorkerPort {
  return new Worker(new URL('worker.js', document.baseURI), { type: 'module' })
}
