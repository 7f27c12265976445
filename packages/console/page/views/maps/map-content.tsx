import { useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount } from '../../format.ts'
import { Content, Notice } from '../../parts/notice.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { LoadBar } from './download.tsx'
import { isJsonType } from './file-name.ts'
import { JsonTree } from './json-tree.tsx'

/** What the project may read in one go: more is fetched only when asked for. */
const unaskedBytesMax = 64 << 20
/** What one tab can hold beside the rest. */
const shownBytesMax = 1 << 30

/** The content of a complete map: a tree if it is JSON. */
export function MapContent({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [isAskedFor, setAskedFor] = useState(map.size <= unaskedBytesMax)
  if (!isJsonType(map.contentType)) {
    return <Notice kind="empty">Only JSON is shown here: download the map ({map.contentType}).</Notice>
  }
  if (map.size > shownBytesMax) {
    return <Notice kind="empty">Only maps up to {formatBytes(shownBytesMax)} are shown here: download the map.</Notice>
  }
  if (isAskedFor) return <JsonContent map={map} callWorker={callWorker} />
  return (
    <button type="button" onClick={() => setAskedFor(true)}>
      Show the map ({formatBytes(map.size)})
    </button>
  )
}

function JsonContent({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [progress, setProgress] = useState<LoadProgress>()
  const opened = useLoaded(
    async (_api, signal) => callWorker('openMap', map, { signal, onProgress: setProgress }),
    [map.digest],
  )
  if (!opened.data && !opened.error && progress) return <LoadBar progress={progress} what="Loading the map" />
  return (
    <Content loaded={opened}>
      {(result) =>
        'root' in result ? (
          <JsonTree root={result.root} callWorker={callWorker} />
        ) : (
          <Notice kind="failed">
            The map is not valid JSON, although its content type is: see byte {formatCount(result.problem.at)}.{' '}
            {result.problem.excerpt !== '' && <code>…{result.problem.excerpt}…</code>}
          </Notice>
        )
      }
    </Content>
  )
}
