import { useMemo, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount } from '../../format.ts'
import { indentJson } from '../../json-text.ts'
import { Content, Notice } from '../../parts/notice.tsx'
import { Preformatted, Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import { type Preview, parsedBytesMax } from '../../worker/map-calls.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { describeDrawn, useMapParts } from '../where/map-parts.tsx'
import { PartsMap } from '../where/parts-map.tsx'
import { LoadBar } from './download.tsx'
import { isJsonType } from './file-name.ts'

/** The content of a complete map, with a preview if it is JSON of at most 32 MiB. */
export function MapContent({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  if (!isJsonType(map.contentType)) {
    return (
      <Notice kind="empty">
        Only JSON is shown here: download the map (<Value text={map.contentType} />
        ).
      </Notice>
    )
  }
  if (map.size > parsedBytesMax) {
    return <Notice kind="empty">Only maps up to {formatBytes(parsedBytesMax)} are shown here: download the map.</Notice>
  }
  return <JsonContent map={map} callWorker={callWorker} />
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
        'preview' in result ? (
          <div class="map-content">
            <MapPicture map={map} callWorker={callWorker} />
            <JsonPreview preview={result.preview} />
          </div>
        ) : (
          <Notice kind="failed">
            The map is not valid JSON, although its content type is: <Value text={result.problem} />
          </Notice>
        )
      }
    </Content>
  )
}

const fromAbove = { across: 'x', down: 'z' }

/** The parts of an opened map, seen from above. */
function MapPicture({ map, callWorker }: { map: MapStatus; callWorker: CallWorker }) {
  const { found } = useMapParts(callWorker, map, fromAbove)
  if (!found) return null
  if (found.count === 0) {
    return <p class="hint">There is no picture of this map: it has no parts with positions and sizes.</p>
  }
  return (
    <div class="map-picture">
      <PartsMap
        call={callWorker}
        title="Map"
        names={found.isFlat ? { across: 'x', down: 'y' } : fromAbove}
        parts={found}
        label={`The map from above: ${describeDrawn(found)}.`}
      />
    </div>
  )
}

/** The beginning of the document. */
function JsonPreview({ preview: { text, length } }: { preview: Preview }) {
  const indented = useMemo(() => indentJson(text), [text])
  return (
    <div>
      <Preformatted text={indented} />
      {text.length < length && (
        <p class="hint">
          The first {formatCount(text.length)} of {formatCount(length)} characters: download the map to see all.
        </p>
      )}
    </div>
  )
}
