import { type Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { type ConfigFile, configFileDefault, isReadByOthers, readConfigFile } from './config/config-file.ts'
import { toConfigOption } from './config/config-option.ts'
import type { DescribedOption } from './config/config-schema.ts'
import type { Io } from './io.ts'
import { parsePath } from './options.ts'
import { hasPassword, targetNames } from './store.ts'

/** How an option may be set. */
export interface Setting {
  isRequired: boolean
  /** The environment variable that sets it. An option with a variable has a key in the file of settings too. */
  variable: string | undefined
  defaultValue: unknown
}

const settings = new WeakMap<Option, Setting>()
/** What the command line says. */
const written = new WeakMap<Option, readonly string[]>()
const optionalTargets = new WeakSet<Command>()
const files = new WeakMap<Command, ConfigFile>()

/** The setting of an option of a command that went through {@link applySettings}. */
export function getSetting(option: Option): Setting | undefined {
  return settings.get(option)
}

/** The file of settings that a parsed command has read. */
export function getConfigFile(command: Command): ConfigFile | undefined {
  return files.get(command)
}

/**
 * Makes a command take its options from the command line, then from the variables in `env`, then from the file of
 * settings, and report all missing options and arguments at once. Commander itself reads `process.env`, and reports only
 * the first missing one. Commands with options that have a variable get `--config`.
 */
export function applySettings(command: Command, env: Io['env']): void {
  if (command.options.some(({ envVar }) => envVar !== undefined)) command.addOption(configOption())
  for (const option of command.options) {
    const defaultValue = command.getOptionValue(option.attributeName())
    settings.set(option, { isRequired: option.mandatory, variable: option.envVar, defaultValue })
    option.makeOptionMandatory(false)
    delete option.envVar
    // the parsed value is not what the user wrote
    command.on(`option:${option.name()}`, (text: string | null) => {
      const texts = [...(written.get(option) ?? []), text ?? String(!option.negate)]
      written.set(option, option.variadic ? texts : texts.slice(-1))
    })
  }
  command.hook('preAction', () => resolveSettings(command, env))
}

const configKey = 'config'

function configOption(): Option {
  return new Option('--config <file>', `file of settings; ./${configFileDefault} if it exists`)
    .env('INGEST_CONFIG')
    .argParser(parsePath)
}

/**
 * Applies the environment variables and the file of settings to a parsed command; called again, it applies the file as it
 * is then.
 *
 * @throws {CommanderError} for an invalid value or file, or for all missing options and arguments.
 */
export function resolveSettings(command: Command, env: Io['env']): void {
  for (const option of command.options) readVariable(command, option, env)
  readFile(command)
  if (listMissing(command).length > 0) throw missingError(command)
}

function readVariable(command: Command, option: Option, env: Io['env']): void {
  const name = option.attributeName()
  const variable = getSetting(option)?.variable
  // an empty variable counts as unset, as with INGEST_KEY
  const text = (variable === undefined ? undefined : env[variable]) || undefined
  if (text === undefined || command.getOptionValueSource(name) === 'cli') return
  try {
    command.setOptionValueWithSource(name, toConfigOption(option).parse(text), 'env')
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    command.error(`option '${option.flags}' value '${text}' from env '${variable}' is invalid. ${error.message}`)
  }
}

function readFile(command: Command): void {
  if (!command.options.some((option) => option.attributeName() === configKey)) return
  const file = readConfigFile(command.getOptionValue(configKey), listConfigOptions(command))
  if (file) files.set(command, file)
  else files.delete(command)
  for (const option of command.options) {
    const name = option.attributeName()
    if (!isInFile(option) || ['cli', 'env'].includes(command.getOptionValueSource(name) ?? '')) continue
    const inFile = file?.values.get(name)
    if (inFile) command.setOptionValueWithSource(name, inFile.value, 'config')
    // the file had it before it was read again
    else if (command.getOptionValueSource(name) === 'config')
      command.setOptionValueWithSource(name, getSetting(option)?.defaultValue, 'default')
  }
}

function isInFile(option: Option): boolean {
  return getSetting(option)?.variable !== undefined && option.attributeName() !== configKey
}

/** The options of all commands that may be set in the file of settings, by key: one file serves all commands. */
export function listConfigOptions(command: Command): Map<string, DescribedOption> {
  let root = command
  while (root.parent) root = root.parent
  const found = new Map<string, DescribedOption>()
  collect(root)
  return found

  function collect({ commands, options }: Command): void {
    for (const option of options.filter(isInFile)) {
      const named = toConfigOption(option)
      const description = option.negate ? `false: ${option.description}` : option.description
      if (!found.has(named.key)) found.set(named.key, { ...named, description, defaultValue: defaultOf(option) })
    }
    for (const each of commands) collect(each)
  }
}

/** The default of an option, as it is written in the file. */
function defaultOf(option: Option): unknown {
  return option.defaultValueDescription ?? getSetting(option)?.defaultValue
}

/** A setting of a parsed command. */
export interface InForce {
  key: string
  /** As it is written in the file; null if it is not set and has no default. */
  value: string | number | boolean | null
  source: 'flag' | 'environment' | 'file' | 'default'
  /** The flag, the variable or the path of the file; null for a default. */
  from: string | null
}

/** The settings of a parsed command that may stand in the file, and the file itself, with their sources. */
export function describeSettings(command: Command, env: Io['env']): InForce[] {
  const named = command.options.filter((option) => getSetting(option)?.variable !== undefined)
  return named.map((option): InForce => {
    const key = option.attributeName()
    const { variable = '' } = getSetting(option) ?? {}
    const file = getConfigFile(command)
    const toValue = (text: string) => (toConfigOption(option).schema.type === 'string' ? text : toScalar(text))
    switch (command.getOptionValueSource(key)) {
      case 'cli':
        return { key, value: toValue((written.get(option) ?? []).join(',')), source: 'flag', from: option.long ?? null }
      case 'env':
        return { key, value: toValue(env[variable] ?? ''), source: 'environment', from: variable }
      case 'config':
        return { key, value: toValue(file?.values.get(key)?.text ?? ''), source: 'file', from: file?.path ?? null }
      default: {
        const value = key === configKey ? file?.path : defaultOf(option)
        return { key, value: (value as InForce['value'] | undefined) ?? null, source: 'default', from: null }
      }
    }
  })
}

function toScalar(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^\d+$/.test(text) ? Number(text) : text
}

/** A warning for the user, if the file of settings holds a password that every user of the machine may read. */
export function passwordWarning(command: Command): string | undefined {
  const file = getConfigFile(command)
  if (!file || ![...file.values.values()].some(({ text }) => hasPassword(text)) || !isReadByOthers(file.path)) return
  return `${file.path} holds a password and every user of this machine may read it: chmod 640 ${file.path}`
}

/** The missing required arguments and options, each with its environment variable. */
function listMissing(command: Command): string[] {
  const isMissing = (option: Option) => command.getOptionValue(option.attributeName()) === undefined
  const missing = command.registeredArguments
    .slice(command.args.length)
    .filter(({ required }) => required)
    .map((argument) => `<${argument.name()}>`)
  const options = command.options.filter((option) => getSetting(option)?.isRequired && isMissing(option))
  missing.push(...options.map(describeOption))
  const target = findTargetOptions(command)
  if (target.length > 0 && target.every(isMissing)) missing.push(target.map(describeOption).join(' or '))
  return missing
}

/** Lets a command run without the options that name a server or a store. */
export function makeTargetOptional(command: Command): void {
  optionalTargets.add(command)
}

/** The options that name a server or a store, if the command requires one of several. */
export function findTargetOptions(command: Command): Option[] {
  if (optionalTargets.has(command)) return []
  const isTarget = (option: Option) => !option.hidden && targetNames.some((name) => name === option.attributeName())
  const options = command.options.filter(isTarget)
  return options.length > 1 ? options : []
}

function describeOption(option: Option): string {
  const variable = getSetting(option)?.variable
  return variable === undefined ? option.flags : `${option.flags} (or ${variable})`
}

/** The error that names all missing arguments and options, and those in `also`. */
export function missingError(command: Command, also: readonly Option[] = []): CommanderError {
  const names: string[] = []
  for (let each: Command | null = command; each; each = each.parent) names.unshift(each.name())
  const missing = [...listMissing(command), ...also.map(describeOption)]
  const message = `missing ${missing.join(', ')}: see \`${names.join(' ')} --help\` for an example`
  return new CommanderError(1, 'ingest.missing', message)
}
