// Where do players die more, or less, with a build than with another one? Prints the spots, and draws both builds:
//
//     node deaths-by-build.js 'export/*.parquet' PLACE BUILD BUILD SQUARE FILE.svg
//
// The files are those of `ingest export --format parquet --column x=/position/x:float --column z=/position/z:float`.
import { writeFile } from 'node:fs/promises'
import { DuckDBInstance } from '@duckdb/node-api'

const [files = '', place = '', before = '', after = '', side = '', picture = ''] = process.argv.slice(2)
const square = Number(side)
if (!(square > 0) || picture === '') throw new Error('usage: FILES PLACE BUILD BUILD SQUARE FILE.svg')

// Fisher's exact test: how likely equal builds are to differ this much, with more deaths in either
const macros = `
CREATE MACRO ways(n, k) AS lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
CREATE MACRO or_more(died, played, others_died, others) AS list_sum([
  exp(ways(played, k) + ways(others, died + others_died - k) - ways(played + others, died + others_died))
  for k in range(died, least(played, died + others_died) + 1)
]);
CREATE MACRO chance(died1, played1, died2, played2) AS
  2 * least(or_more(died1, played1, died2, played2), or_more(died2, played2, died1, played1));
`
const query = `
WITH events AS (
  SELECT *, buildId = $after AS is_after FROM read_parquet($files)
  WHERE placeId = $place AND buildId IN ($before, $after)
), played AS (
  SELECT
    count(DISTINCT sessionId) FILTER (NOT is_after) AS played1,
    count(DISTINCT sessionId) FILTER (is_after) AS played2
  FROM events
), died AS (
  SELECT floor(x / $square) AS x, floor(z / $square) AS z,
    count(DISTINCT sessionId) FILTER (NOT is_after) AS died1,
    count(DISTINCT sessionId) FILTER (is_after) AS died2
  FROM events WHERE type = 'player.death' AND x IS NOT NULL AND z IS NOT NULL GROUP BY ALL
)
SELECT *, died1 / played1 AS share1, died2 / played2 AS share2,
  chance(died1, played1, died2, played2) * count(*) OVER () < 0.01 AS changed
FROM died, played ORDER BY x, z
`
/** @typedef {{ x: number, z: number, share1: number, share2: number, changed: boolean }} Square x and z in squares */
/** @typedef {Square & Record<'played1' | 'played2' | 'died1' | 'died2', bigint>} Row */

const db = await (await DuckDBInstance.create()).connect()
await db.run(macros)
const result = await db.runAndReadAll(query, { files, place, before, after, square })
const rows = /** @type {Row[]} */ (/** @type {unknown} */ (result.getRowObjectsJS()))
const [first] = rows
if (!first?.played1 || !first.played2) throw new Error(`no deaths in ${place}, or no sessions of ${before} or ${after}`)

console.log(`${first.played1} sessions of ${before} and ${first.played2} of ${after} in ${place}`)
const spots = findSpots(rows.filter(({ changed }) => changed))
for (const spot of spots) {
  const [most] = spot.toSorted((a, b) => Math.abs(b.share2 - b.share1) - Math.abs(a.share2 - a.share1))
  if (!most) continue
  const where = ['x', 'z'].map((axis) => {
    const at = spot.map((row) => row[/** @type {'x' | 'z'} */ (axis)] * square)
    return `${axis} ${Math.min(...at)} to ${Math.max(...at) + square}`
  })
  const counts = `${most.died1} of ${most.played1} sessions, then ${most.died2} of ${most.played2}`
  console.log(`${isMore(most) ? 'more' : 'fewer'} deaths at ${where.join(', ')}: in one square ${counts}`)
}
console.log(`${spots.length} spots differ by more than chance`)
await writeFile(picture, draw(rows))

/** @param {Square} row */
function isMore({ share1, share2 }) {
  return share2 > share1
}

/**
 * Changed squares that touch each other are one spot, if deaths became more in all of them, or fewer.
 *
 * @param {Row[]} changed
 */
function findSpots(changed) {
  /** @type {Row[][]} */
  let spots = []
  for (const row of changed) {
    const touching = spots.filter((spot) => spot.some((other) => touches(other, row)))
    spots = [...spots.filter((spot) => !touching.includes(spot)), [row, ...touching.flat()]]
  }
  return spots
}

/** @param {Square} a @param {Square} b */
function touches(a, b) {
  return Math.abs(a.x - b.x) <= 1 && Math.abs(a.z - b.z) <= 1 && isMore(a) === isMore(b)
}

/** @param {Square[]} squares */
function draw(squares) {
  const [xs, zs] = [squares.map(({ x }) => x), squares.map(({ z }) => z)]
  const [left, top] = [Math.min(...xs), Math.min(...zs)]
  const [width, height] = [Math.max(...xs) - left + 1, Math.max(...zs) - top + 1]
  const panels = [before, after].map((build, i) => {
    const drawn = squares.map(({ x, z, changed, ...shares }) => {
      const share = i === 0 ? shares.share1 : shares.share2
      const outline = changed ? ' stroke="black" stroke-width="0.1"' : ''
      return `<rect x="${x - left}" y="${z - top}" width="1" height="1" fill="red" fill-opacity="${share.toFixed(2)}"${outline}/>`
    })
    return `<g transform="translate(${i * (width + 1) + 1} 2)">
<text y="-0.5" font-size="1">${build.replace(/[&<]/g, (sign) => `&#${sign.charCodeAt(0)};`)}</text>
<rect width="${width}" height="${height}" fill="none" stroke="gray" stroke-width="0.02"/>
${drawn.join('\n')}
</g>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * width + 3} ${height + 3}" font-family="sans-serif">
<rect width="100%" height="100%" fill="white"/>
${panels.join('\n')}
</svg>
`
}
