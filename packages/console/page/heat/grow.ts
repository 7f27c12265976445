/** The values in an array of at least this length, twice as long as before if it grows. New values are 0. */
export function grow<Values extends Float32Array | Float64Array | Uint16Array>(values: Values, length: number): Values {
  if (length <= values.length) return values
  const larger = new (values.constructor as new (length: number) => Values)(Math.max(length, 2 * values.length))
  larger.set(values)
  return larger
}
