import type { Page } from 'puppeteer-core'
import t from 'tap'
import { fileNameOf } from '../page/views/maps/file-name.ts'
import { splitHidden, visibleText } from '../page/visible-text.ts'
import { checkAccessibility, openBrowser, waitForText } from './browser.ts'
import { projectId, startConsole } from './served-console.ts'

const browserTest = openBrowser(t)

const hidden = {
  bidirectional: '\u202a\u202e\u2066\u2069\u200e\u200f\u061c',
  'zero-width': '\u200b\u200c\u200d\u2060\ufeff',
  tag: '\u{e0001}\u{e0041}\u{e007f}',
  selector: '\ufe00\ufe0f\u{e0100}',
  control: '\0\b\t\n\x1b\x7f\x85\x9f',
  'line separator': '\u2028\u2029',
  'lone surrogate': '\ud800',
  blank: '\u00ad\u034f\u115f\u2800\u3164\ufff9',
}

for (const [name, characters] of Object.entries(hidden)) {
  t.test(`each ${name} character is shown as its escape in JSON`, async (t) => {
    for (const character of characters) {
      const shown = visibleText(`a${character}b`)
      t.match(shown, /^a(\\u[\da-f]{4}){1,2}b$/)
      t.equal(JSON.parse(`"${shown}"`), `a${character}b`)
    }
  })
}

t.test('visible text is unchanged', async (t) => {
  for (const text of ['', 'level_1', 'Größe 12 µm', 'שלום', '日本語　', 'é', '👍🏽', '❤️', String.raw`\u202e`]) {
    t.equal(visibleText(text), text)
  }
})

t.test('a text of several lines keeps its line breaks and tabs', async (t) => {
  const text = 'a\n\tb\r\nc\rd'
  const shown = splitHidden(text, true).map((part) => part.text)
  t.equal(shown.join(''), 'a\n\tb\r\nc\\u000dd')
})

t.test('the name of a downloaded file has no hidden characters', async (t) => {
  const placeId = Object.values(hidden).join('x')
  const name = fileNameOf({ buildId: 'b', placeId, contentType: 'image/png' })
  t.equal(visibleText(name), name)
})

/** Without control characters and lone surrogates, which a build must not have. */
const evil = 'x\u202egpj\u2066\u200b\ufeff\u{e0041}\u3164\u2028 \u2800y'
const seen = String.raw`x\u202egpj\u2066\u200b\ufeff\udb40\udc41\u3164\u2028 \u2800y`

browserTest('no view shows a hidden character of an id, a type, a message or JSON', async (t, openPage) => {
  const { url, key, newKey, project, server } = await startConsole(t, { rejected: { keepEvents: true } })
  const position = { x: 1, z: 2, [evil]: 3 }
  const event = {
    projectId,
    eventId: `e-${evil}`,
    type: evil,
    buildId: evil,
    placeId: evil,
    playerId: evil,
    position,
    [evil]: evil,
  }
  await project.publishMap({ placeId: evil, buildId: evil, map: { [evil]: [evil], parts: [{ name: evil }] } })
  const body = JSON.stringify({ events: [event, { ...event, eventId: `r-${evil}`, timestamp: evil }] }, null, 2)
  const writeKey = await newKey('events:write')
  await fetch(`${server.url}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': writeKey, 'Content-Type': 'application/json' },
    body,
  })
  const { page } = await openPage({ url, key })
  const map = `maps/${encodeURIComponent(evil)}`
  const views: Record<string, (() => Promise<void>) | undefined> = {
    now: undefined,
    live: () => page.locator('[role=option]').click(),
    rejected: () => page.locator('details summary').click(),
    maps: undefined,
    [map]: undefined,
    [`${map}?${new URLSearchParams({ place: evil })}`]: async () => void (await page.waitForSelector('pre')),
    where: () => waitForText(page, 'have both'),
    [`playback?${new URLSearchParams({ player: evil })}`]: undefined,
    [`find?${new URLSearchParams({ id: event.eventId })}`]: undefined,
    [`find?${new URLSearchParams({ id: evil })}`]: () => waitForText(page, 'Not stored'),
    // an unknown view
    [evil]: undefined,
  }
  for (const [address, act] of Object.entries(views)) {
    await page.evaluate((address) => {
      location.hash = `#/${address}`
    }, address)
    await page.waitForFunction(() => !document.querySelector('.notice.loading'))
    await act?.()
    if (address !== 'now' && address !== evil) {
      await page
        .waitForFunction((seen) => document.body.textContent.includes(seen), {}, seen)
        .catch((error) => {
          throw new Error(`${address} does not show the text`, { cause: error })
        })
    }
    t.strictSame(await hiddenTexts(page), [], visibleText(address))
    await checkAccessibility(page)
  }
})

browserTest('a copied selection has the original hidden characters', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const eventId = `e-${evil}`
  await project.submitBatch({ events: [{ projectId, eventId }] })
  const { page } = await openPage({ url: `${url}#/find?${new URLSearchParams({ id: eventId })}`, key })
  for (const [selector, expected] of [
    ['.found-id bdi', eventId],
    ['section[aria-label="Formatted text"] pre', JSON.stringify({ projectId, eventId }, null, 2)],
  ] as const) {
    await page.waitForSelector(selector)
    const copied = await page.evaluate((selector) => {
      getSelection()?.selectAllChildren(document.querySelector(selector) as Element)
      return new Promise<string | undefined>((resolve) => {
        addEventListener('copy', ({ clipboardData }) => resolve(clipboardData?.getData('text/plain')), { once: true })
        document.execCommand('copy')
      })
    }, selector)
    t.equal(copied, expected)
  }
})

/** The texts, titles and accessible names of the page that contain a hidden character. */
function hiddenTexts(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const texts = [document.title]
    const walker = document.createTreeWalker(document.body)
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node instanceof Text) texts.push(node.data)
      if (!(node instanceof Element)) continue
      for (const { name, value } of node.attributes) {
        if (/^(aria-|title$|alt$|label$|placeholder$|download$)/.test(name)) texts.push(value)
      }
    }
    return texts.filter((text) => /[\u202e\u2066\u200b\ufeff\u{e0041}\u3164\u2028\u2800]/u.test(text))
  })
}
