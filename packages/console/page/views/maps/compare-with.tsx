import { formatAddress } from '../../address.ts'
import { BuildCombobox } from '../../parts/build-combobox.tsx'

interface CompareWithProps {
  buildId: string
  placeId: string
  /** '' if none is chosen yet. */
  withBuildId: string
}

/** Opens the comparison of the map of a place with that of another build. */
export function CompareWith({ buildId, placeId, withBuildId }: CompareWithProps) {
  return (
    <div class="controls">
      <BuildCombobox
        label="Compare with build"
        value={withBuildId}
        onChoose={(other) => {
          location.hash = formatAddress(['maps', buildId], { place: placeId, with: other })
        }}
      />
    </div>
  )
}
