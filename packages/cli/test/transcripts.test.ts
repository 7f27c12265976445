import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import t, { type Test } from 'tap'
import { createProgram } from '../src/program.ts'
import { createIo, ingest } from './run-ingest.ts'
import { createKey, openServed, projectId } from './served.ts'

// transcripts/README.md describes the format of transcripts

const directory = join(import.meta.dirname, '../../../../packages/cli/test/transcripts')
const rewrite = 'INGEST_WRITE=1 npx pnpm@10.34.9 run tap packages/cli/test/transcripts.test.ts'

const start = Date.parse('2025-11-20T17:51:00Z')
let now = start
Date.now = () => now
// every command takes 0 s, so that printed durations are constant
performance.now = () => 0

interface World {
  env: Record<string, string>
  /** The printed values of placeholders such as `[cursor]`. */
  known: Map<string, string>
}

const worlds: Record<string, (t: Test) => Promise<World>> = {
  'an empty directory': async () => ({ env: {}, known: new Map() }),
  async store() {
    return { env: { INGEST_STORE: 'data', INGEST_PROJECT_ID: projectId }, known: knownOf(await createKey('data')) }
  },
  async server(t) {
    const { env, key, url } = await openServed(t, { server: 'eu-1' })
    return { env, known: knownOf(key).set('[url]', url) }
  },
}

function knownOf(key: string) {
  const [, keyId = '', secret = ''] = key.split('_')
  return new Map(Object.entries({ '[key-id]': keyId, '[secret]': secret }))
}

/** Commands that were shown with `--json`, with success and with failure. */
const shown = new Set<string>()

for (const file of readdirSync(directory).filter((name) => name !== 'README.md')) {
  const path = join(directory, file)
  const [, targets = 'an empty directory'] = /^<!-- targets: (.+) -->$/m.exec(readFileSync(path, 'utf8')) ?? []
  for (const target of targets.split(', ')) {
    t.test(`${file}, ${target}`, async (t) => {
      now = start
      const before = process.cwd()
      process.chdir(t.testdir({}))
      t.teardown(() => process.chdir(before))
      const world = await worlds[target]?.(t)
      if (!world) throw new Error(`${target} is not a target`)
      world.known.set('[dir]', process.cwd())
      const sections = readFileSync(path, 'utf8').split(/^(?=## )/m)
      const actual: string[] = []
      for (const section of sections) {
        const [title = ''] = section.split('\n')
        await t.test(title, async (t) => {
          const lines = await runSection(section.split('\n'), world)
          actual.push(lines.join('\n'))
          if (!process.env.INGEST_WRITE) t.equal(lines.join('\n'), section, rewrite)
        })
      }
      if (process.env.INGEST_WRITE) writeFileSync(path, actual.join(''))
    })
  }
}

t.test('every command is shown with --json, when it works and when it fails', async (t) => {
  const namesOf = ({ commands }: Command, words: readonly string[] = []): string[] =>
    commands.flatMap((each) => {
      const own = [...words, each.name()]
      return each.commands.length > 0 ? namesOf(each, own) : [own.join(' ')]
    })
  // `serve` works until a signal, which its own tests send
  const names = namesOf(createProgram(createIo().io)).filter((name) => name !== 'serve')
  const expected = names.flatMap((name) => [`${name}: true`, `${name}: false`])
  t.strictSame(
    expected.filter((each) => !shown.has(each)),
    [],
  )
})

/**
 * Checks the output of --json that all commands share: one object with `ok`, or a line for each event; times in RFC 3339;
 * the members of an error.
 */
function checkJson(command: string, stdout: string, code: number): void {
  const lines = linesOf(stdout).map((line) => JSON.parse(line))
  const isOfEvents = /^(?:export(?!.* --output)|tail) /.test(command) && code === 0
  const [object] = lines
  if (!isOfEvents && (lines.length !== 1 || Object.keys(object)[0] !== 'ok'))
    throw new Error(`not one object: ${stdout}`)
  if (!isOfEvents && code !== 0 && object.ok) throw new Error(`ok, with exit code ${code}: ${stdout}`)
  const { code: name, message, retryable, ...more } = object?.error ?? { code: '-', message: '-', retryable: false }
  if (!name || !message || typeof retryable !== 'boolean' || Object.keys(more).length > 0) throw new Error(stdout)
  for (const [, member, time = ''] of isOfEvents ? [] : stdout.matchAll(/"(\w+[a-z]At)":("[^"]*"|[^",}]*)/g)) {
    if (!/^(?:null|"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")$/.test(time)) throw new Error(`${member}: ${time}`)
  }
  const [words = ''] = /^(?:(?:keys|consumers|maps) )?\S+/.exec(command) ?? []
  shown.add(`${words}: ${code === 0}`)
}

/** Runs the blocks of a section. Returns its lines, in which actual lines replace expected ones that do not match. */
async function runSection(lines: readonly string[], world: World): Promise<string[]> {
  const actual: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    actual.push(line)
    const [, language, file] = /^```(\w+) ?(.*)$/.exec(line) ?? []
    if (language === undefined) continue
    const block = lines.slice(at + 1, lines.indexOf('```', at))
    at += block.length
    if (language === 'console') actual.push(...(await runBlock(block, world)))
    else {
      if (file) write(file, block.map((each) => `${fill(each, world)}\n`).join(''))
      actual.push(...block)
    }
  }
  return actual
}

async function runBlock(block: readonly string[], world: World): Promise<string[]> {
  const actual: string[] = []
  for (const [at, line] of block.entries()) {
    if (!line.startsWith('$ ')) continue
    const next = block.findIndex((each, i) => i > at && each.startsWith('$ '))
    const expected = block.slice(at + 1, next === -1 ? undefined : next)
    const printed = await runCommand(fill(line.slice(2), world), world).catch((error) => {
      // a fault of one command does not hide others, and is never written to the file
      if (process.env.INGEST_WRITE) throw error
      return [String(error)]
    })
    actual.push(line)
    for (const [i, text] of printed.entries()) {
      actual.push(matches(expected[i] ?? '', text, world) ? (expected[i] ?? '') : abstract(text, world))
    }
  }
  return actual
}

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Runs a command in this process. Returns the lines that it prints, and its exit code if that is not 0. */
async function runCommand(command: string, { env }: World): Promise<string[]> {
  const redirected = Object.fromEntries(Array.from(command.matchAll(/ ([<>]) (\S+)/g), ([, way, file]) => [way, file]))
  const words = wordsOf(command.replaceAll(/ [<>] \S+/g, ''))
  const own = { ...env }
  const isExport = words[0] === 'export'
  if (isExport) words.shift()
  for (let [word = ''] = words; /^[A-Z_]+=/.test(word); [word = ''] = words) {
    const [name = '', ...value] = (words.shift() ?? '').split('=')
    own[name] = value.join('=')
  }
  const [program = isExport ? 'export' : '', first = '', ...rest] = words
  const files = [first, ...rest].filter((word) => !word.startsWith('-'))
  if (program === 'cat') return files.flatMap((file) => linesOf(readFileSync(file, 'utf8')))
  if (program === 'ls') return files.flatMap((file) => readdirSync(file).sort())
  if (program === 'export') Object.assign(env, own)
  else if (program === 'cp') cpSync(files[0] ?? '', files[1] ?? '', { recursive: true })
  else if (program === 'rm') for (const file of files) rmSync(file, { recursive: true })
  else if (program === 'sleep') now += Number.parseInt(first, 10) * unitMs[first.slice(-1) as keyof typeof unitMs]
  else if (program !== 'ingest') throw new Error(`not a command of transcripts: ${command}`)
  if (program !== 'ingest') return []
  const stdin = redirected['<'] === undefined ? '' : readFileSync(redirected['<'], 'utf8')
  const { code, stdout, stderr } = await ingest(words.slice(1), { env: own, stdin })
  if (words.includes('--json') && !words.includes('--')) checkJson(words.slice(1).join(' '), stdout, code ?? 1)
  if (redirected['>'] !== undefined) write(redirected['>'], stdout)
  const [printed, errors] = [redirected['>'] === undefined ? linesOf(stdout) : [], linesOf(stderr)]
  // this prefix distinguishes both streams without a mark
  if (errors.some((line) => !line.startsWith('ingest: ')) || printed.some((line) => line.startsWith('ingest: '))) {
    throw new Error(`a line on the wrong stream: ${JSON.stringify({ stdout, stderr })}`)
  }
  return [...printed, ...errors, ...(code === 0 ? [] : [`[exit code ${code}]`])]
}

function linesOf(text: string): string[] {
  if (text === '') return []
  return text.endsWith('\n') ? text.slice(0, -1).split('\n') : [...text.split('\n'), '[no newline]']
}

/** The words of a command line; quotes enclose an empty word, or spaces. */
function wordsOf(line: string): string[] {
  return Array.from(line.matchAll(/(?:'[^']*'|[^\s'])+/g), ([word]) => word.replaceAll("'", ''))
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** The patterns of placeholders. `…` is a word or a number that differs each time, and is not remembered. */
const kinds: Record<string, string> = {
  'key-id': '[0-9a-z]{8}',
  secret: '[0-9a-z]{39}',
  cursor: '[\\w-]{32}',
  url: 'http://127\\.0\\.0\\.1:\\d+',
}
const placeholder = /(\[(?:dir|(?:key-id|secret|cursor|url)\d*)\]|…)/

function fill(command: string, { known }: World): string {
  return command.replaceAll(new RegExp(placeholder, 'g'), (name) => known.get(name) ?? name)
}

function matches(expected: string, printed: string, { known }: World): boolean {
  const names: string[] = []
  const source = expected.split(placeholder).map((part, i) => {
    if (i % 2 === 1 && part === '…') return '[^\\s"{}]+'
    if (i % 2 === 0 || known.has(part)) return (known.get(part) ?? part).replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
    if (names.includes(part)) return `\\${names.indexOf(part) + 1}`
    names.push(part)
    return `(${kinds[part.replaceAll(/[[\]\d]/g, '')]})`
  })
  const found = new RegExp(`^${source.join('')}$`, 'u').exec(printed)
  for (const [i, name] of names.entries()) if (found) known.set(name, found[i + 1] ?? '')
  return found !== null
}

/** A printed line with placeholders for what varies. */
function abstract(printed: string, { known }: World): string {
  let line = printed
  const replace = (pattern: RegExp, name: string) => {
    for (const [text] of line.matchAll(pattern)) {
      const isNew = ![...known.values()].includes(text)
      const count = [...known.keys()].filter((each) => each.startsWith(`[${name}`)).length
      if (isNew) known.set(`[${name}${count === 0 ? '' : count + 1}]`, text)
    }
  }
  replace(/(?<=ik_)[0-9a-z]{8}(?=_)/g, 'key-id')
  replace(/(?<=ik_[0-9a-z]{8}_)[0-9a-z]{39}/g, 'secret')
  replace(/(?<="cursor":"|^cursor +)[\w-]{32}/g, 'cursor')
  for (const [name, text] of known) line = line.replaceAll(text, name)
  return line
}
