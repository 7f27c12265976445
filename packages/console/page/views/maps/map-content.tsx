import { useEffect, useRef, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { RequestError } from '../../api/request-error.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount } from '../../format.ts'
import { Content, Failure, Notice } from '../../parts/notice.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { useWorker } from '../../worker/use-worker.ts'
import { fileNameOf, isJson } from './file-name.ts'
import { JsonTree } from './json-tree.tsx'

/** What the project may read in one go: more is fetched only when asked for. */
const unaskedBytesMax = 64 << 20
/** What one tab can hold beside the rest. */
const shownBytesMax = 1 << 30

/** The content of a complete map: a tree of JSON, and a download of anything. */
export function MapContent({ map }: { map: MapStatus }) {
  const callWorker = useWorker()
  const [isAskedFor, setAskedFor] = useState(map.size <= unaskedBytesMax)
  const isShown = isJson(map.contentType) && map.size <= shownBytesMax
  return (
    <section aria-labelledby="content-title">
      <h2 id="content-title">Content</h2>
      <div class="controls">
        <Download map={map} callWorker={callWorker} />
        {isShown && !isAskedFor && (
          <button type="button" onClick={() => setAskedFor(true)}>
            Fetch {formatBytes(map.size)} and show them
          </button>
        )}
      </div>
      {isShown ? (
        isAskedFor && <JsonContent key={map.digest} map={map} callWorker={callWorker} />
      ) : (
        <Notice kind="empty">
          {isJson(map.contentType)
            ? `Larger than ${formatBytes(shownBytesMax)}, which is the most that is shown here: download it.`
            : `${map.contentType} is not shown here, only JSON is: download it.`}
        </Notice>
      )}
    </section>
  )
}

function JsonContent({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [progress, setProgress] = useState<LoadProgress>()
  const opened = useLoaded(
    async (_api, signal) => callWorker('openMap', map, { signal, onProgress: setProgress }),
    [map.digest],
  )
  if (!opened.data && !opened.error && progress) return <LoadBar progress={progress} what="Fetching the map" />
  return (
    <Content loaded={opened}>
      {(result) =>
        'root' in result ? (
          <JsonTree root={result.root} callWorker={callWorker} />
        ) : (
          <Notice kind="failed">
            Its content type is JSON, but its bytes are not: see byte {formatCount(result.problem.at)}.{' '}
            {result.problem.excerpt !== '' && <code>…{result.problem.excerpt}…</code>} Download it to look at it.
          </Notice>
        )
      }
    </Content>
  )
}

function Download({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [progress, setProgress] = useState<LoadProgress>()
  const [error, setError] = useState<RequestError>()
  const ending = useRef<AbortController>()
  useEffect(() => () => ending.current?.abort(), [])

  async function download(): Promise<void> {
    ending.current = new AbortController()
    setProgress({ loaded: 0, total: map.size })
    setError(undefined)
    try {
      const { signal } = ending.current
      save(await callWorker('downloadMap', map, { signal, onProgress: setProgress }), fileNameOf(map))
    } catch (error) {
      if (error instanceof RequestError) setError(error)
    } finally {
      setProgress(undefined)
    }
  }

  return (
    <>
      {progress ? (
        <>
          <LoadBar progress={progress} what="Downloading" />
          <button type="button" onClick={() => ending.current?.abort()}>
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

function LoadBar({ progress: { loaded, total }, what }: { progress: LoadProgress; what: string }) {
  return (
    <p class="load" role="status">
      <progress max={total} value={loaded} aria-label={what} /> {what}: {formatBytes(loaded)} of {formatBytes(total)}
    </p>
  )
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // the browser may read it after this event
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
