import { formatNumber } from './format.js'
import { runsOf } from './rounds.js'
import { summarize } from './statistics.js'

const width = 760
const margin = { left: 220, right: 90 }
const rowHeight = 30
const title = 'Events a second, empty store, 100 a batch, 16 connections'

/**
 * An SVG with a bar for each throughput and its spread, for light and dark pages.
 *
 * @param {import('./report.js').Measured} record
 */
export function makePlot({ results: { throughput = [] }, contenders }) {
  const bars = contenders.flatMap(({ name, title }) => {
    const rates = runsOf(throughput, (round) => round[name]).map(({ eventsPerSecond }) => eventsPerSecond)
    return rates.length === 0 ? [] : [{ title, ...summarize(rates) }]
  })
  const scale = (width - margin.left - margin.right) / Math.max(...bars.map(({ max }) => max))
  const rows = bars.map((bar, i) => drawBar(bar, { y: 40 + i * rowHeight, scale }))
  const height = 50 + bars.length * rowHeight
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13">
<title>${escapeXml(title)}</title>
<style>
  text { fill: #24292f } .quiet { fill: #57606a } .axis { stroke: #8c959f } .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .axis { stroke: #7d8590 } .page { fill: #0d1117 }
  }
</style>
<rect class="page" width="100%" height="100%"/>
<text x="16" y="24" font-weight="600">${escapeXml(title)}</text>
<path class="axis" d="M${margin.left} 36V${height - 8}" fill="none"/>
${rows.join('\n')}
</svg>
`
}

/** @param {import('./statistics.js').Summary & { title: string }} bar @param {{ y: number, scale: number }} at */
function drawBar({ title, median, min, max }, { y, scale }) {
  const x = (/** @type {number} */ value) => (margin.left + value * scale).toFixed(1)
  return [
    `<text x="${margin.left - 10}" y="${y + 15}" text-anchor="end">${escapeXml(title)}</text>`,
    `<rect x="${margin.left}" y="${y + 2}" width="${(median * scale).toFixed(1)}" height="${rowHeight - 12}" rx="2" fill="${title.startsWith('Ingest') ? '#2f7ed8' : '#8a8f98'}"/>`,
    `<path class="axis" d="M${x(min)} ${y + 11}H${x(max)}M${x(min)} ${y + 7}v8M${x(max)} ${y + 7}v8" fill="none"/>`,
    `<text x="${(margin.left + max * scale + 8).toFixed(1)}" y="${y + 15}" class="quiet">${formatNumber(median)}</text>`,
  ].join('\n')
}

/** @param {string} text */
function escapeXml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
