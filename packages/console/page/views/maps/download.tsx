import { useEffect, useRef, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import type { RequestError } from '../../api/request-error.ts'
import { repeat, useConnection } from '../../api/use-api.ts'
import { formatBytes } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import { save } from '../../parts/save.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { fileNameOf } from './file-name.ts'

/** Saves the bytes of a complete map as a file. */
export function Download({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [progress, setProgress] = useState<LoadProgress>()
  const [error, setError] = useState<RequestError>()
  const connection = useConnection()
  const ending = useRef<AbortController | undefined>(undefined)
  useEffect(() => () => ending.current?.abort(), [])

  async function download(): Promise<void> {
    ending.current = new AbortController()
    const { signal } = ending.current
    setProgress({ loaded: 0, total: map.size })
    const step = async () => {
      save(await callWorker('downloadMap', map, { signal, onProgress: setProgress }), fileNameOf(map))
      setError(undefined)
      return undefined
    }
    await repeat(step, { connection, signal, onError: setError })
    setProgress(undefined)
  }
  function cancel(): void {
    setError(undefined)
    ending.current?.abort()
  }

  return (
    <>
      {progress ? (
        <>
          <LoadBar progress={progress} what="Downloading" />
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        </>
      ) : (
        <button type="button" onClick={download}>
          Download
        </button>
      )}
      {error && <Failure error={error} />}
    </>
  )
}

export function LoadBar({ progress: { loaded, total }, what }: { progress: LoadProgress; what: string }) {
  return (
    <p class="load" role="status">
      <progress max={total} value={loaded} aria-label={what} /> {what}: {formatBytes(loaded)} of {formatBytes(total)}
    </p>
  )
}
