import { createContext } from 'preact'
import { useContext, useEffect, useMemo } from 'preact/hooks'
import { useApi } from '../api/use-api.ts'
import { type CallWorker, createWorkerClient, type WorkerPort } from './call-worker.ts'

/**
 * The worker of this component. It starts with the first call, and ends with the component or the session, which frees
 * its memory. Use it once per view.
 */
export function useWorker(): CallWorker {
  const api = useApi()
  const client = useMemo(() => createWorkerClient(api, startWorker), [api])
  useEffect(() => client.end, [client])
  return client.call
}

/** The worker of the session, which outlives views and keeps the data that it has read. */
export const SessionWorkerContext = createContext<CallWorker>(() => Promise.reject(new Error('There is no session.')))

export function useSessionWorker(): CallWorker {
  return useContext(SessionWorkerContext)
}

function startWorker(): WorkerPort {
  return new Worker(new URL('worker.js', document.baseURI), { type: 'module' })
}
