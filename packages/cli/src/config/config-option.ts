import { dirname, isAbsolute, join } from 'node:path'
import { InvalidArgumentError, type Option } from 'commander'
import { parseBoolean, schemaOfParser, type ValueSchema } from '../options.ts'

/** An option that may also be set in the file of settings. */
export interface ConfigOption {
  /** The name of the option in camelCase, such as `logLevel`. */
  key: string
  /** The JSON Schema of its value in the file. */
  schema: ValueSchema
  /** @throws {InvalidArgumentError | CommanderError} for text that is not valid on the command line either */
  parse(text: string): unknown
}

/** How an option is written in the file of settings. */
export function toConfigOption(option: Option): ConfigOption {
  const isSwitch = option.isBoolean() || option.negate
  return {
    key: option.attributeName(),
    schema: isSwitch ? { type: 'boolean' } : schemaOf(option),
    parse: (text) => (isSwitch ? parseBoolean(text) : (option.parseArg?.(text, undefined) ?? text)),
  }
}

function schemaOf({ argChoices, parseArg }: Option): ValueSchema {
  return argChoices ? { type: 'string', enum: argChoices } : schemaOfParser(parseArg)
}

const typeNames = {
  string: 'a string',
  integer: 'an integer',
  boolean: 'true or false',
  array: 'an array of strings',
  object: 'an object',
} as const

/**
 * A value of the file as the option would be written on the command line: lists and objects with commas, paths relative
 * to the file.
 *
 * @throws {InvalidArgumentError} for a value of another type
 */
export function toOptionText({ schema }: ConfigOption, value: unknown, file: string): string {
  const types = [schema.type].flat()
  const type = typeOf(value)
  if (type === undefined || !types.includes(type)) {
    throw new InvalidArgumentError(`Expected ${types.map((each) => typeNames[each]).join(' or ')}.`)
  }
  if (Array.isArray(value)) return value.map(String).join(',')
  if (typeof value === 'object')
    return Object.entries(value as object)
      .map(([name, each]) => `${name}=${each}`)
      .join(',')
  const text = String(value)
  return schema.format === 'path' && isRelativePath(text) ? join(dirname(file), text) : text
}

function typeOf(value: unknown): keyof typeof typeNames | undefined {
  if (Array.isArray(value)) return value.every((each) => typeof each === 'string') ? 'array' : undefined
  if (typeof value === 'string' || typeof value === 'boolean') return typeof value as 'string' | 'boolean'
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : undefined
  return typeof value === 'object' && value !== null ? 'object' : undefined
}

/** A store may be a URL in place of a path. */
function isRelativePath(text: string): boolean {
  return text !== '' && !isAbsolute(text) && !/^[a-z][a-z\d+.-]+:\/\//i.test(text)
}
