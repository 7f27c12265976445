import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { CommanderError, InvalidArgumentError } from 'commander'
import { closestMatch } from 'leven'
import type { ConfigOption } from './config-option.ts'
import { toOptionText } from './config-option.ts'

/** The file that is read if no other one is named. */
export const configFileDefault = 'ingest.config.json'

/** The largest file that is read: a larger one is not a file of settings. */
export const configBytesMax = 65_536

/** A file of settings, of which every key and value is valid. */
export interface ConfigFile {
  path: string
  /** By key. */
  values: ReadonlyMap<string, ConfigValue>
}

export interface ConfigValue {
  /** As the option is written on the command line. */
  text: string
  /** What the option makes of it. */
  value: unknown
}

/**
 * Reads a file of settings; without a path, the default one if it exists.
 *
 * @throws {CommanderError} with the file, and the line or the key
 */
export function readConfigFile(
  path: string | undefined,
  options: ReadonlyMap<string, ConfigOption>,
): ConfigFile | undefined {
  const file = path ?? configFileDefault
  const text = readText(file, path === undefined)
  if (text === undefined) return undefined
  const members = parseObject(file, text)
  const values = new Map<string, ConfigValue>()
  for (const [key, value] of Object.entries(members)) {
    if (key === '$schema') continue
    const option = options.get(key)
    if (!option) throw fileError(file, `unknown key ${JSON.stringify(key)}${suggest(key, [...options.keys()])}`)
    values.set(key, parseValue(file, key, option, value))
  }
  return { path: file, values }
}

/** Whether every user of the machine may read a file. */
export function isReadByOthers(path: string): boolean {
  return process.platform !== 'win32' && (statSync(path).mode & 0o004) !== 0
}

function readText(file: string, isOptional: boolean): string | undefined {
  let bytes: Buffer
  try {
    bytes = readStart(file, configBytesMax + 1)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (isOptional && code === 'ENOENT') return undefined
    throw new CommanderError(1, 'ingest.config', `the settings cannot be read: ${message}`)
  }
  if (bytes.length > configBytesMax) throw fileError(file, `larger than ${configBytesMax} bytes`)
  return bytes.toString('utf8').replace(/^\uFEFF/, '')
}

/** At most `bytesMax` bytes, also of a file without an end. */
function readStart(file: string, bytesMax: number): Buffer {
  const descriptor = openSync(file, 'r')
  try {
    const bytes = Buffer.alloc(bytesMax)
    let length = 0
    for (let read = -1; read !== 0; length += read) read = readSync(descriptor, bytes, length, bytesMax - length, null)
    return bytes.subarray(0, length)
  } finally {
    closeSync(descriptor)
  }
}

function parseObject(file: string, text: string): object {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw syntaxError(file, text)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw fileError(file, 'expected an object: { "data": "data/games" }')
}

/** The message of JSON.parse quotes the text, which may hold a password, and often lacks the position. */
function syntaxError(file: string, text: string): CommanderError {
  // loaded on demand: it takes longer than everything else that --help needs
  const { parse, printParseErrorCode }: typeof import('jsonc-parser') = createRequire(import.meta.url)('jsonc-parser')
  const errors: import('jsonc-parser').ParseError[] = []
  try {
    parse(text, errors, { disallowComments: true })
  } catch {
    return new CommanderError(1, 'ingest.config', `${file} is not JSON: it is nested too deeply`)
  }
  const { offset, error } = errors[0] ?? { offset: text.length, error: 1 }
  const lines = text.slice(0, offset).split('\n')
  const [line, column] = [lines.length, (lines.at(-1)?.length ?? 0) + 1]
  const problem = printParseErrorCode(error).replaceAll(/\B[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return new CommanderError(1, 'ingest.config', `${file}:${line}:${column} is not JSON: ${problem}`)
}

/** Secrets, which are read from the environment alone. */
const secrets: ReadonlyMap<string, string> = new Map([
  ['adminToken', 'INGEST_ADMIN_TOKEN'],
  ['key', 'INGEST_KEY'],
])

function suggest(key: string, keys: readonly string[]): string {
  const secret = secrets.get(key)
  if (secret !== undefined) return `: set ${secret} in the environment`
  const nearest = closestMatch(
    key.toLowerCase(),
    keys.map((each) => each.toLowerCase()),
    {
      maxDistance: Math.max(2, Math.floor(key.length / 3)),
    },
  )
  const named = keys.find((each) => each.toLowerCase() === nearest)
  return named === undefined ? `, expected ${keys.toSorted().join(', ')}` : `, did you mean "${named}"?`
}

function parseValue(file: string, key: string, option: ConfigOption, value: unknown): ConfigValue {
  try {
    const text = toOptionText(option, value, file)
    return { text, value: option.parse(text) }
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw fileError(file, `${key}: ${lowerFirst(error.message)}`)
    if (error instanceof CommanderError) throw fileError(file, `${key}: ${error.message}`)
    throw error
  }
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1)
}

function fileError(file: string, problem: string): CommanderError {
  return new CommanderError(1, 'ingest.config', `${file}: ${problem}`)
}
