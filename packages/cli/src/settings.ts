import { type Command, CommanderError, InvalidArgumentError, type Option } from 'commander'
import type { Io } from './io.ts'
import { targetNames } from './store.ts'

/** Whether an option is required, and the environment variable that sets it. */
export interface Setting {
  isRequired: boolean
  variable: string | undefined
}

const settings = new WeakMap<Option, Setting>()

/** The setting of an option of a command that went through {@link applySettings}. */
export function getSetting(option: Option): Setting | undefined {
  return settings.get(option)
}

/**
 * Makes a command read the variables of its options from `env`, and report all missing options and arguments at once.
 * Commander itself reads `process.env`, and reports only the first missing one.
 */
export function applySettings(command: Command, env: Io['env']): void {
  for (const option of command.options) {
    settings.set(option, { isRequired: option.mandatory, variable: option.envVar })
    option.makeOptionMandatory(false)
    delete option.envVar
  }
  command.hook('preAction', () => resolveSettings(command, env))
}

/**
 * Applies the environment variables of a parsed command.
 *
 * @throws {CommanderError} for an invalid value, or for all missing options and arguments.
 */
export function resolveSettings(command: Command, env: Io['env']): void {
  for (const option of command.options) readVariable(command, option, env)
  if (listMissing(command).length > 0) throw missingError(command)
}

function readVariable(command: Command, option: Option, env: Io['env']): void {
  const name = option.attributeName()
  const variable = getSetting(option)?.variable
  // an empty variable counts as unset, as with INGEST_KEY
  const text = (variable === undefined ? undefined : env[variable]) || undefined
  const source = command.getOptionValueSource(name)
  if (text === undefined || (source !== undefined && source !== 'default')) return
  try {
    command.setOptionValueWithSource(name, option.parseArg ? option.parseArg(text, undefined) : text, 'env')
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    command.error(`option '${option.flags}' value '${text}' from env '${variable}' is invalid. ${error.message}`)
  }
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

/** The options that name a server or a store, if the command requires one of several. */
export function findTargetOptions(command: Command): Option[] {
  const options = command.options.filter((option) => targetNames.some((name) => name === option.attributeName()))
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
