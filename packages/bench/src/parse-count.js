const factors = { '': 1, k: 1e3, M: 1e6 }

/** `0`, `500`, `250k`, `1.5M`. @param {string} text */
export function parseCount(text) {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)([kM]?)$/.exec(text) ?? []
  if (digits === undefined) throw new Error(`"${text}" is not a count such as 0, 500, 250k or 10M`)
  return Math.round(Number(digits) * factors[/** @type {keyof typeof factors} */ (unit)])
}

/** @param {string} text counts, by commas */
export function parseCounts(text) {
  return text.split(',').map(parseCount)
}
