const units = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 6 })

/** A coordinate or a length of the map: `-1,250`, `0.25`. */
export function formatUnits(value: number): string {
  return units.format(value).replace('-', '−')
}

/** `120 to 125`. */
export function formatBounds(from: number, to: number): string {
  return `${formatUnits(from)} to ${formatUnits(to)}`
}

/** `z` for `/position/z`: short where the whole pointer stands elsewhere. */
export function nameOf(pointer: string): string {
  const name = pointer.slice(pointer.lastIndexOf('/') + 1)
  // the index of an array is no name
  return /^\d+$/.test(name) ? pointer : name
}
