import type { Page } from 'puppeteer-core'
import t from 'tap'
import { fit } from '../../page/heat/viewport.ts'
import { checkAccessibility, chooseOption, openBrowser, waitForText } from '../browser.ts'
import { startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

/** The browser's log of a request for a map that does not exist. */
const noMap = /status of 404.*\/v1\/maps\?/

browserTest('two maps are compared by their parts', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const part = (name: string, x: number, members: object = {}) => ({
    name,
    position: [x, 0, 0],
    size: [10, 5, 10],
    ...members,
  })
  const lamps = [0, 20, 40].map((x) => part('lamp', x))
  const before = [part('gone', -50), part('door', 70), part('wall', 90, { color: 'red' }), ...lamps]
  const after = [part('new', -80), part('door', 75), part('wall', 90, { color: 'blue' }), ...lamps.slice(1)]
  const publish = (build: string, placeId: string, map: unknown) =>
    project.publishMap({ placeId, buildId: build, map: map as object })
  await publish('1.41', 'arena', { parts: before })
  await publish('1.42', 'arena', { parts: after })
  for (const build of ['1.41', '1.42']) await publish(build, 'same', { parts: before })
  await publish('1.42', 'lobby', { parts: after })
  const { page } = await openPage({
    url: `${url}#/maps/1.42?place=arena`,
    key,
    colorScheme: 'dark',
    allow: [noMap],
  })
  await chooseOption(page, 'Compare with build', '1.41')
  await waitForText(page, '6 parts before, 5 after: 2 are the same.')
  t.match(await page.evaluate('location.hash'), /\/maps\/1\.42\?place=arena&with=1\.41$/)
  const rows = () =>
    page.$$eval('.changes tbody tr', (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)))
  await page.waitForSelector('.changes tbody tr')
  t.strictSame(await rows(), [
    ['gone', 'removed', 'at -50 0 0, size 10 5 10', '–'],
    ['door', 'moved', 'at 70 0 0, size 10 5 10', 'at 75 0 0, size 10 5 10'],
    ['wall', 'changed', 'at 90 0 0, size 10 5 10color: "red"', 'at 90 0 0, size 10 5 10color: "blue"'],
    ['lamp', 'removed', 'at 0 0 0, size 10 5 10', '–'],
    ['new', 'added', '–', 'at -80 0 0, size 10 5 10'],
  ])
  const box = { left: -85, top: -5, right: 95, bottom: 5 }
  const [added, removed, outside] = await pictureColors(page, [-80, -50, -20], box)
  t.ok(isMore(added, 1, 0), `added is green: ${added}`)
  t.ok(isMore(removed, 0, 1), `removed is red: ${removed}`)
  t.equal(outside?.[3], 0, 'nothing is drawn elsewhere')
  await checkAccessibility(page, 'map-comparison')
  await page.locator('::-p-aria(moved 1[role="button"])').click()
  await page.waitForFunction(() => document.querySelectorAll('.changes tbody tr').length === 1)
  await page.locator('::-p-aria(door[role="button"])').click()

  await page.setViewport({ width: 380, height: 800 })
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380)
  await checkAccessibility(page, 'map-comparison-narrow')

  await page.goto(`${url}#/maps/1.42?place=same&with=1.41`)
  await waitForText(page, 'Both builds have the same bytes.')
  await page.goto(`${url}#/maps/1.42?place=lobby&with=1.41`)
  await waitForText(page, 'has no complete map of this place.')
})

const isMore = (color: readonly number[] = [], channel: number, than: number) =>
  (color[channel] ?? 0) > (color[than] ?? 0) + 20

/** The colours of points of the picture of a comparison at the height 0. */
function pictureColors(page: Page, points: readonly number[], box: Parameters<typeof fit>[0]) {
  return page
    .$eval('.map-comparison canvas', ({ clientWidth: width, clientHeight: height }) => ({ width, height }))
    .then((size) => {
      const { x, unitsPerPixel } = fit(box, size)
      const pixels = points.map((at) => Math.round(size.width / 2 + (at - x) / unitsPerPixel))
      return page.$eval(
        '.map-comparison canvas',
        (canvas, pixels) => {
          const { width, height } = canvas
          const { data } = (canvas.getContext('2d') as CanvasRenderingContext2D).getImageData(0, 0, width, height)
          const row = Math.floor(height / 2)
          return pixels.map((x) => [...data.slice(4 * (row * width + x), 4 * (row * width + x) + 4)])
        },
        pixels,
      )
    })
}
