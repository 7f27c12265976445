import type { MapContents, MapStatus } from '../../api/bodies.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { CopyButton } from '../../parts/copy-button.tsx'

/** Shows `complete`, `incomplete`, or complete with a pending replacement. */
export function MapState({ map }: { map: MapStatus }) {
  return (
    <>
      <span class={`badge ${map.state}`}>{map.state}</span>
      {map.pending && <span class="badge incomplete">replacement pending</span>}
    </>
  )
}

export function Digest({ digest }: { digest: string }) {
  return (
    <span class="digest">
      <code>{digest}</code> <CopyButton text={digest} what="digest" />
    </span>
  )
}

const listedMax = 100

/**
 * How much of a manifest is uploaded. The API names each missing chunk once, even if the manifest repeats it, so the
 * bar may show more chunks than are stored.
 */
export function ChunkBar({ contents: { chunks, missing } }: { contents: MapContents }) {
  if (missing.length === 0) return null
  const present = Math.max(0, chunks - missing.length)
  return (
    <div class="chunks">
      <p id="chunks-text">
        <strong>
          {formatCount(missing.length)} of {formatCountOf(chunks, 'chunk')} missing.
        </strong>{' '}
        A chunk that the manifest repeats counts once.
      </p>
      <progress max={chunks} value={present} aria-labelledby="chunks-text" />
      <details>
        <summary>Digests of the missing chunks</summary>
        <ol class="mono">
          {missing.slice(0, listedMax).map((digest) => (
            <li key={digest}>{digest}</li>
          ))}
        </ol>
        {missing.length > listedMax && <p>and {formatCount(missing.length - listedMax)} more</p>}
      </details>
    </div>
  )
}
