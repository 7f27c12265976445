import t from 'tap'
import { checkAccessibility, chooseBuild, openBrowser, waitForText } from '../browser.ts'
import { startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

/** The browser's log of a request for a map that does not exist. */
const noMap = /status of 404.*\/v1\/maps\?/

browserTest('a map shows how many parts were added and removed since another build', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const part = (name: string, x: number) => ({ name, position: [x, 0, 0], size: [10, 5, 10] })
  const before = { parts: [part('gone', -50), part('door', 70), part('lamp', 0), part('lamp', 20)] }
  const after = { parts: [part('new', -80), part('door', 75), part('lamp', 0)] }
  const publish = (build: string, placeId: string, map: object) => project.publishMap({ placeId, buildId: build, map })
  await publish('1.41', 'arena', before)
  await publish('1.42', 'arena', after)
  for (const build of ['1.41', '1.42']) await publish(build, 'same', before)
  await publish('1.42', 'lobby', after)
  for (const [build, map] of [
    ['1.41', { a: 1 }],
    ['1.42', { a: 2 }],
  ] as const)
    await publish(build, 'plain', map)
  const { page } = await openPage({ url: `${url}#/maps/1.42?place=arena`, key, colorScheme: 'dark', allow: [noMap] })
  await waitForText(page, '"door"')
  await chooseBuild(page, 'Changes since build', '1.41')
  await waitForText(page, '4 parts in 1.41, 3 now: 1 added, 2 removed, by id, name or path.')
  t.match(await page.evaluate('location.hash'), /\/maps\/1\.42\?place=arena&with=1\.41$/)
  await checkAccessibility(page, 'map-changes')
  await page.setViewport({ width: 380, height: 800 })
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380)
  for (const [place, sentence] of [
    ['same', 'It has the same bytes.'],
    ['lobby', 'It has no complete map of this place.'],
    ['plain', 'The bytes differ. Neither map has parts with positions and sizes.'],
  ] as const) {
    await page.goto(`${url}#/maps/1.42?place=${place}&with=1.41`)
    await waitForText(page, sentence)
  }
  await chooseBuild(page, 'Changes since build', '')
  await page.waitForFunction(() => !location.hash.includes('with='))
})
