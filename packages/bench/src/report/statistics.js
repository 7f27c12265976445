/**
 * The median and the range of a few measurements.
 *
 * @typedef {{ median: number, min: number, max: number, count: number }} Summary
 */

/** @param {readonly number[]} values at least one @returns {Summary} */
export function summarize(values) {
  if (values.length === 0) throw new Error('there is nothing to summarize')
  const sorted = [...values].sort((x, y) => x - y)
  return {
    median: (at(sorted, Math.floor((sorted.length - 1) / 2)) + at(sorted, Math.ceil((sorted.length - 1) / 2))) / 2,
    min: at(sorted, 0),
    max: at(sorted, sorted.length - 1),
    count: sorted.length,
  }
}

/**
 * One figure relative to another, round by round, so that effects of the machine on a whole round cancel out.
 *
 * @param {readonly number[]} values
 * @param {readonly number[]} others of the same rounds
 */
export function summarizeRatios(values, others) {
  if (values.length !== others.length) throw new Error(`${values.length} rounds cannot be set against ${others.length}`)
  return summarize(values.map((value, i) => value / at(others, i)))
}

/**
 * The smallest value that at least `share` of all values do not exceed.
 *
 * @param {ArrayLike<number>} sorted ascending, at least one
 * @param {number} share 0 to 1
 */
export function percentile(sorted, share) {
  return at(sorted, Math.max(0, Math.ceil(sorted.length * share) - 1))
}

/** @param {ArrayLike<number>} values @param {number} index */
function at(values, index) {
  const value = values[index]
  if (value === undefined) throw new RangeError(`there is no value at ${index}`)
  return value
}
