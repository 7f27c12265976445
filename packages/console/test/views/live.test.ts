import t from 'tap'
import { checkAccessibility, openBrowser, screenshot, waitForText } from '../browser.ts'
import { startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

const types = ['round.start', 'round.end', 'player.join', 'player.leave', 'shot.fired', 'item.bought']

browserTest('trial', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  for (let b = 0; b < 3; b++)
    await project.submitBatch({
      events: Array.from({ length: 100 }, (_, i) => ({
        projectId: 'game-1',
        eventId: `9f1c2d3e-7a4b-4c5d-8e6f-${String(b * 100 + i).padStart(12, '0')}`,
        type: types[i % types.length] as string,
        buildId: i % 3 ? '2026.11.20' : '2026.11.21',
        placeId: 920587237,
        playerId: `p-${i % 17}`,
        position: { x: i * 1.5, y: 0, z: -i },
        tags: ['a', 'b'],
        note: 'ä "quoted"',
      })),
    })
  const { page } = await openPage({ url: `${url}#/live`, key })
  await page.waitForSelector('[role=option]')
  await checkAccessibility(page)
  await screenshot(page, 'live-list')
  await page.click('[role=option]:nth-child(4)')
  await waitForText(page, 'Exact bytes')
  await checkAccessibility(page)
  await screenshot(page, 'live')
  await page.setViewport({ width: 380, height: 800 })
  await checkAccessibility(page)
  await screenshot(page, 'live-380')
})
