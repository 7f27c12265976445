import { useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount } from '../../format.ts'
import { Content, Notice } from '../../parts/notice.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { LoadBar } from './download.tsx'
import { isJson } from './file-name.ts'
import { JsonTree } from './json-tree.tsx'

/** What the project may read in one go: more is fetched only when asked for. */
const unaskedBytesMax = 64 << 20
/** What one tab can hold beside the rest. */
const shownBytesMax = 1 << 30

/** The content of a complete map: a tree if it is JSON. */
export function MapContent({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const [isAskedFor, setAskedFor] = useState(map.size <= unaskedBytesMax)
  if (!isJson(map.contentType)) {
    return <Notice kind="empty">{map.contentType} is not shown here, only JSON is: download it.</Notice>
  }
  if (map.size > shownBytesMax) {
    return <Notice kind="empty">More than {formatBytes(shownBytesMax)} are not shown here: download them.</Notice>
  }
  if (isAskedFor) return <JsonContent map={map} callWorker={callWorker} />
  return (
    <button type="button" onClick={() => setAskedFor(true)}>
      Fetch {formatBytes(map.size)} and show them
    </button>
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
