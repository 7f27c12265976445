import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import chromium from '@sparticuz/chromium'
import puppeteer from 'puppeteer-core'

/** The folder of this package, also for the compiled copy of the tests, which has its package.json as a link. */
export const packageDirectory = dirname(realpathSync(fileURLToPath(new URL('../package.json', import.meta.url))))

/**
 * Why no browser starts here; false if one does. `CHROME_PATH` names another one.
 *
 * @type {string | false}
 */
export const noBrowser = process.env.CHROME_PATH ? false : await reasonOfNoChromium()

/**
 * Of the flags that @sparticuz/chromium advises, for serverless functions, only those without which it does not start.
 * Others hide what these tests look for (`--disable-web-security`, `--allow-running-insecure-content`,
 * `--disable-site-isolation-trials`) or let the whole browser end with a page (`--single-process`, `--no-zygote`).
 */
const flags = [
  // as root, and where user namespaces are restricted, there is no sandbox
  '--no-sandbox',
  // a request to another origin fails, and fails the test, even if this machine has no network
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
]

/** @param {string[]} moreFlags */
export async function launchBrowser(moreFlags = []) {
  const executablePath = process.env.CHROME_PATH ?? (await extractChromium())
  // with a pipe, the browser ends with the process, also one that is killed
  return puppeteer.launch({ executablePath, headless: 'shell', args: [...flags, ...moreFlags], pipe: true })
}

/** @returns {Promise<string | false>} */
async function reasonOfNoChromium() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'no Chromium for this platform: set CHROME_PATH'
  const path = await extractChromium()
  try {
    execFileSync(path, ['--version'], { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' })
    return false
  } catch (error) {
    const { stderr, message } = /** @type {Error & { stderr?: string }} */ (error)
    return `Chromium does not start, set CHROME_PATH: ${(stderr || message).trim().split('\n')[0]}`
  }
}

/** Extracts the browser of the package once. Processes that do so at the same time do not disturb each other. */
async function extractChromium() {
  const cache = join(packageDirectory, 'node_modules/.cache')
  const directory = join(cache, `chromium-${chromiumVersion()}`)
  const path = join(directory, 'chromium')
  if (existsSync(path)) return path
  mkdirSync(cache, { recursive: true })
  const partial = mkdtempSync(join(cache, 'partial-'))
  await inTemporaryDirectory(partial, () => chromium.executablePath())
  try {
    renameSync(partial, directory)
  } catch (error) {
    if (!existsSync(path)) throw error
    rmSync(partial, { recursive: true })
  }
  return path
}

/**
 * `executablePath` extracts into the temporary directory, where it runs what another process has written in part.
 *
 * @param {string} directory
 * @param {() => Promise<unknown>} run
 */
async function inTemporaryDirectory(directory, run) {
  const before = process.env.TMPDIR
  process.env.TMPDIR = directory
  try {
    await run()
  } finally {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  }
}

/** @returns {string} */
function chromiumVersion() {
  const entry = fileURLToPath(import.meta.resolve('@sparticuz/chromium'))
  return JSON.parse(readFileSync(join(dirname(entry), '../../package.json'), 'utf8')).version
}
