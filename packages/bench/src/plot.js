import { formatNumber } from './format.js'
import { formatSize } from './measure-growth.js'
import { growthRatio } from './ratios.js'
import { summarize } from './statistics.js'

/** @typedef {{ title: string, median: number, min: number, max: number }} Bar */
/** @typedef {{ title: string, points: { x: number, label: string, y: number }[] }} Line */

const width = 760
const margin = { left: 220, right: 90 }
const rowHeight = 30
const colors = ['#2f7ed8', '#d9822b', '#3a9d5d', '#a854b8', '#8a8f98']

/**
 * Bars of the throughput, and lines of how it changes as the stores grow, as one SVG for light and dark pages.
 *
 * @param {import('./run-benchmark.js').Measured} record
 */
export function makePlot({ results, contenders }) {
  const bars = contenders.flatMap(({ name, title }) => {
    const rates = (results.throughput ?? []).flatMap((round) => round[name]?.eventsPerSecond ?? [])
    return rates.length === 0 ? [] : [{ title, ...summarize(rates) }]
  })
  const lines = contenders.flatMap(({ name, title }) => {
    const sizes = [
      ...new Set((results.growth?.rounds ?? []).flatMap((round) => Object.keys(round[name] ?? {}).map(Number))),
    ]
    const points = sizes.flatMap((size) => {
      const ratio = growthRatio(results, name, size)
      return ratio ? [{ x: size, label: formatSize(size), y: ratio.median }] : []
    })
    return points.length > 1 ? [{ title, points }] : []
  })
  const charts = [
    ...(bars.length > 0 ? [barChart('Events a second, empty store, 100 a batch, 16 connections', bars)] : []),
    ...(lines.length > 0
      ? [lineChart('Throughput with events stored, of that with none', 'events stored before', lines)]
      : []),
  ]
  return page(charts)
}

/** @typedef {{ svg: string, height: number }} Chart */

/** @param {Chart[]} charts */
export function page(charts) {
  let top = 0
  const placed = charts.map(({ svg, height }) => {
    const group = `<g transform="translate(0 ${top})">${svg}</g>`
    top += height + 20
    return group
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${Math.max(top, 40)}" font-family="system-ui, sans-serif" font-size="13">
<style>
  text { fill: #24292f } .quiet { fill: #57606a } .axis { stroke: #8c959f } .grid { stroke: #d0d7de; stroke-dasharray: 2 3 } .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .axis { stroke: #7d8590 } .grid { stroke: #3d444d } .page { fill: #0d1117 }
  }
</style>
<rect class="page" width="100%" height="100%"/>
${placed.join('\n')}
</svg>
`
}

/** @param {string} title @param {Bar[]} bars @returns {Chart} */
function barChart(title, bars) {
  const most = Math.max(...bars.map(({ max }) => max))
  const scale = (width - margin.left - margin.right) / most
  const rows = bars.map(({ title: name, median, min, max }, i) => {
    const y = 40 + i * rowHeight
    const x = (/** @type {number} */ value) => (margin.left + value * scale).toFixed(1)
    return [
      `<text x="${margin.left - 10}" y="${y + 15}" text-anchor="end">${escapeXml(name)}</text>`,
      `<rect x="${margin.left}" y="${y + 2}" width="${(median * scale).toFixed(1)}" height="${rowHeight - 12}" rx="2" fill="${name.startsWith('Ingest') ? colors[0] : colors[4]}"/>`,
      `<path class="axis" d="M${x(min)} ${y + 11}H${x(max)}M${x(min)} ${y + 7}v8M${x(max)} ${y + 7}v8" fill="none"/>`,
      `<text x="${(margin.left + max * scale + 8).toFixed(1)}" y="${y + 15}" class="quiet">${formatNumber(median)}</text>`,
    ].join('\n')
  })
  const height = 50 + bars.length * rowHeight
  const axis = `<path class="axis" d="M${margin.left} 36V${height - 8}" fill="none"/>`
  return {
    svg: `<text x="16" y="24" font-weight="600">${escapeXml(title)}</text>\n${axis}\n${rows.join('\n')}`,
    height,
  }
}

/** @param {string} title @param {string} xTitle @param {Line[]} lines @returns {Chart} */
export function lineChart(title, xTitle, lines, yTitle = '') {
  const [left, right, top, bottom] = [70, width - 40, 50 + lines.length * 18, 300 + lines.length * 18]
  const labels = new Map(lines.flatMap(({ points }) => points.map(({ x, label }) => /** @type {const} */ ([x, label]))))
  const xs = [...labels.keys()].sort((a, b) => a - b)
  const most = niceMost(Math.max(...lines.flatMap(({ points }) => points.map(({ y }) => y))))
  // sizes grow by factors, so they stand at equal distances
  const xOf = (/** @type {number} */ x) => left + ((right - left) * xs.indexOf(x)) / Math.max(1, xs.length - 1)
  const yOf = (/** @type {number} */ y) => bottom - ((bottom - top) * y) / most
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = yOf(share * most).toFixed(1)
    return `<path class="grid" d="M${left} ${y}H${right}"/><text class="quiet" x="${left - 8}" y="${Number(y) + 4}" text-anchor="end">${formatNumber(share * most)}</text>`
  })
  const ticks = xs.map(
    (x) =>
      `<text class="quiet" x="${xOf(x).toFixed(1)}" y="${bottom + 18}" text-anchor="middle">${labels.get(x)}</text>`,
  )
  const drawn = lines.map(({ title: name, points }, i) => {
    const color = colors[i % colors.length]
    const path = points
      .map(({ x, y }, at) => `${at === 0 ? 'M' : 'L'}${xOf(x).toFixed(1)} ${yOf(y).toFixed(1)}`)
      .join('')
    const dots = points.map(
      ({ x, y }) => `<circle cx="${xOf(x).toFixed(1)}" cy="${yOf(y).toFixed(1)}" r="3.5" fill="${color}"/>`,
    )
    const legend = `<rect x="${left}" y="${38 + i * 18}" width="14" height="4" fill="${color}"/><text x="${left + 22}" y="${44 + i * 18}">${escapeXml(name)}</text>`
    return `<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>${dots.join('')}${legend}`
  })
  const axes = `<path class="axis" d="M${left} ${top}V${bottom}H${right}" fill="none"/>`
  const names = `<text x="16" y="24" font-weight="600">${escapeXml(title)}</text><text class="quiet" x="${(left + right) / 2}" y="${bottom + 38}" text-anchor="middle">${escapeXml(xTitle)}</text>${yTitle ? `<text class="quiet" x="${right}" y="24" text-anchor="end">${escapeXml(yTitle)}</text>` : ''}`
  return { svg: [names, ...grid, axes, ...ticks, ...drawn].join('\n'), height: bottom + 46 }
}

/** The next round number above. @param {number} value */
function niceMost(value) {
  const unit = 10 ** Math.floor(Math.log10(value))
  return ([1, 1.2, 1.6, 2, 4, 6, 8, 10].find((factor) => factor * unit >= value) ?? 10) * unit
}

/** @param {string} text */
function escapeXml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
