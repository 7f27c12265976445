import { useMemo } from 'preact/hooks'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { Box, Size, Viewport } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { heatImage } from './heat-image.ts'
import { PartsPicture } from './parts-map.tsx'
import { useTheme } from './use-theme.ts'

interface HeatPictureProps {
  call: CallWorker
  size: Size
  viewport: Viewport
  counts: CountedEvents | undefined
  /** The count with the last colour. */
  max: number
  parts: FoundParts | undefined
  /** Cells to outline. */
  cells: readonly Box[]
  selection: Selection
  /** The name of its build, if there are two pictures. */
  name: string | undefined
  /** Description for screen readers. */
  label: string
}

/** Counts over the parts of a map. They may be those of the previous viewport until the worker has new ones. */
export function HeatPicture(props: HeatPictureProps) {
  const { call, size, viewport, counts, max, parts, cells, selection, name, label } = props
  const theme = useTheme()
  const heat = useMemo(() => {
    if (!counts) return undefined
    const image = document.createElement('canvas')
    image.width = counts.columns
    image.height = counts.rows
    image.getContext('2d')?.putImageData(heatImage(counts, max, theme), 0, 0)
    return { image, grid: counts }
  }, [counts, max, theme])
  return (
    <figure class="heat-picture">
      <PartsPicture {...{ call, size, viewport, heat, parts, cells, label }} names={selection} />
      {name !== undefined && (
        <figcaption>
          <Value text={name} />
        </figcaption>
      )}
    </figure>
  )
}
