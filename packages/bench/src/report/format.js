/** @typedef {import('./statistics.js').Summary} Summary */

/** Three significant digits, with separators: 1,234,000, 12.3, 0.57. @param {number} value */
export function formatNumber(value) {
  if (!Number.isFinite(value)) return '–'
  const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)))
  const rounded = magnitude > 2 ? Number(value.toPrecision(3)) : value
  return rounded.toLocaleString('en', { maximumFractionDigits: Math.max(0, 2 - Math.max(0, magnitude)) })
}

/** Formats a number of events. @param {number} size */
export function formatSize(size) {
  return size >= 1e6 ? `${size / 1e6} M` : size.toLocaleString('en')
}

/** `0.57 (0.51–0.60)`. @param {Summary} summary */
export function formatSummary({ median, min, max, count }) {
  return count === 1 ? formatNumber(median) : `${formatNumber(median)} (${formatNumber(min)}–${formatNumber(max)})`
}

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows @returns {string} in Markdown */
export function formatTable(head, rows) {
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
