const units = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 6 })
const largeUnits = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 6, notation: 'scientific' })

/** A coordinate or length: `-1,250`, `0.25`, `9.0072E15`. Short enough for an axis. */
export function formatUnits(value: number): string {
  return (Math.abs(value) < 1e7 ? units : largeUnits).format(value).replace('-', '−')
}

/** `120 to 125`. */
export function formatBounds(from: number, to: number): string {
  return `${formatUnits(from)} to ${formatUnits(to)}`
}

/** `z` for `/position/z`: a short name where the whole pointer is shown elsewhere. */
export function nameOf(pointer: string): string {
  const name = pointer.slice(pointer.lastIndexOf('/') + 1)
  // an array index is not a name
  return /^\d+$/.test(name) ? pointer : name
}
