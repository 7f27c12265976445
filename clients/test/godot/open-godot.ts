import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { StartProgram } from '@ingest/checks/sender'
import type { Test } from 'tap'
import { launchBrowser, noBrowser } from '../../../packages/console/scripts/chromium.js'

const directory = process.env.GODOT_WEB ?? ''
const clients = fileURLToPath(new URL('../..', import.meta.url))

/** Why Godot does not run here; false if it does. */
export const noGodot =
  noBrowser || (!existsSync(join(directory, 'index.wasm')) && 'GODOT_WEB names no folder with a web build of Godot 4')

const project = `config_version=5
[application]
config/name="Conformance"
run/main_scene="res://main.tscn"
[rendering]
renderer/rendering_method="gl_compatibility"
`
const scene = `[gd_scene load_steps=2 format=3]
[ext_resource type="Script" path="res://main.gd" id="1"]
[node name="Main" type="Node"]
script = ExtResource("1")
`

/** Runs in the page. Fetch in a browser follows redirects, unlike HTTPRequest elsewhere. */
const page = `<!doctype html><canvas id="canvas"></canvas><script src="index.js"></script><script>
const ownFetch = window.fetch
let lines = []
window.program = {
  settings: () => JSON.stringify(window.variables),
  takeLines: () => JSON.stringify(lines.splice(0)),
  add: (more) => lines.push(...more),
  finish: (result) => window.finish(result),
  take: (count) => window.take(count),
  refuse: () => window.refuse(),
  start(variables) {
    window.variables = variables
    window.fetch = (url, init) => ownFetch(url, String(url).startsWith(variables.INGEST_URL) ? { ...init, redirect: 'manual' } : init)
    const options = { args: ['--headless'], executable: 'index', mainPack: 'main.pck', canvas: document.getElementById('canvas') }
    const output = { onPrint: console.log, onPrintError: console.log }
    return new Engine({ ...options, ...output, canvasResizePolicy: 0, focusCanvas: false, gdextensionLibs: [] }).startGame()
  },
}
</script>`

/**
 * Starts a browser, and returns how to start the sender in a page of its own, in the web build of Godot, with the input and
 * output of a program. All pages share one `user://`.
 */
export async function openGodot(t: Test): Promise<StartProgram> {
  const pck = packFiles({
    'project.godot': project,
    'main.tscn': scene,
    'main.gd': readFileSync(join(clients, 'test/godot/main.gd')),
    'checks.gd': readFileSync(join(clients, 'test/godot/checks.gd')),
    'addons/ingest/ingest_sender.gd': readFileSync(join(clients, 'godot/addons/ingest/ingest_sender.gd')),
  })
  const server = createServer(({ url = '' }, response) => {
    const path = join(directory, basename(url))
    if (url === '/') response.setHeader('Content-Type', 'text/html').end(page)
    else if (url === '/main.pck') response.end(pck)
    else if (!existsSync(path)) response.writeHead(404).end()
    else
      response
        .setHeader('Content-Type', url.endsWith('.wasm') ? 'application/wasm' : 'text/javascript')
        .end(readFileSync(path))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // the servers of the kit allow no other origin
  const browser = await launchBrowser(['--disable-web-security'])
  t.teardown(async () => {
    await browser.close()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`

  return async (variables) => {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
    let end = (_: { code: number | null; signal: string | null }) => {}
    const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
      end = (how) => {
        stdout.end()
        stderr.end()
        resolve(how)
      }
    })
    const page = await browser.newPage()
    let started: Promise<unknown> = Promise.resolve()
    const close = async () => {
      // the first frames may come to the end before the start has returned
      await started
      await page.close()
    }
    // without what the browser says of requests, such as the text of a status
    page.on('console', (message) => message.type() === 'log' && stderr.write(`${message.text()}\n`))
    await page.exposeFunction('finish', async (result: string) => {
      stdout.write(`${result}\n`)
      end({ code: 0, signal: null })
      await close()
    })
    await page.exposeFunction('take', (count: number) => void stdout.write(`taken ${count}\n`))
    await page.exposeFunction('refuse', async () => {
      end({ code: 1, signal: null })
      await close()
    })
    await page.goto(url)
    const spool = variables.INGEST_SPOOL ? `user://${basename(variables.INGEST_SPOOL)}` : ''
    // biome-ignore lint/suspicious/noExplicitAny: runs in the page
    started = page.evaluate((given) => (globalThis as any).program.start(given), { ...variables, INGEST_SPOOL: spool })
    await started

    let lines: (string | null)[] = []
    let isGiving = false
    async function give(line: string | null): Promise<void> {
      lines.push(line)
      if (isGiving) return
      isGiving = true
      while (lines.length > 0 && !page.isClosed()) {
        const given = lines
        lines = []
        // biome-ignore lint/suspicious/noExplicitAny: runs in the page
        await page.evaluate((more) => (globalThis as any).program.add(more), given).catch(() => {})
      }
      isGiving = false
    }
    createInterface({ input: stdin })
      .on('line', give)
      .on('close', () => give(null))
    return {
      stdin,
      stdout,
      stderr,
      ended,
      kill() {
        end({ code: null, signal: 'SIGKILL' })
        page.close().catch(() => {})
      },
    }
  }
}

/** A pack of Godot 4, version 2 (core/io/pck_packer.cpp). */
function packFiles(files: Record<string, string | Buffer>): Buffer {
  const entries = Object.entries(files).map(([path, content]) => {
    const name = Buffer.from(`res://${path}`)
    return { name: Buffer.concat([name, Buffer.alloc(-name.length & 3)]), content: Buffer.from(content) }
  })
  const u32 = (...numbers: number[]) => Buffer.from(Uint32Array.from(numbers).buffer)
  const u64 = (number: number) => u32(number, 0)
  const start = 100 + entries.reduce((size, { name }) => size + name.length + 40, 0)
  let offset = 0
  const index = entries.flatMap(({ name, content }) => {
    const at = offset
    offset += content.length
    return [u32(name.length), name, u64(at), u64(content.length), createHash('md5').update(content).digest(), u32(0)]
  })
  const head = [Buffer.from('GDPC'), u32(2, 4, 0, 0, 0), u64(start), Buffer.alloc(64), u32(entries.length)]
  return Buffer.concat([...head, ...index, ...entries.map(({ content }) => content)])
}
