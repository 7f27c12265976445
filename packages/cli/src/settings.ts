import { type Command, CommanderError, InvalidArgumentError, type Option } from 'commander'
import type { Io } from './io.ts'

/** Whether an option is required, and the environment variable that may set it. */
export interface Setting {
  isRequired: boolean
  /** The environment variable that has the value where the command line has none. */
  variable: string | undefined
}

const settings = new WeakMap<Option, Setting>()

export function getSetting(option: Option): Setting | undefined {
  return settings.get(option)
}

/**
 * Makes a command read the variables of its options from `env`, and report all missing options and arguments at once.
 * Commander reads the variables of the process, and reports the first missing one only.
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
 * Reads the variables of a command that was parsed.
 *
 * @throws {CommanderError} for a value that is invalid, and for all that is missing.
 */
export function resolveSettings(command: Command, env: Io['env']): void {
  for (const option of command.options) readVariable(command, option, env)
  if (listMissing(command).length > 0) throw missingError(command)
}

function readVariable(command: Command, option: Option, env: Io['env']): void {
  const name = option.attributeName()
  const variable = getSetting(option)?.variable
  // an empty variable counts as not set, as INGEST_KEY does
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

/** The required arguments and options that are missing, each with its environment variable. */
function listMissing(command: Command): string[] {
  const isMissing = (option: Option) => command.getOptionValue(option.attributeName()) === undefined
  const missing = command.registeredArguments
    .slice(command.args.length)
    .filter(({ required }) => required)
    .map((argument) => `<${argument.name()}>`)
  const options = command.options.filter((option) => getSetting(option)?.isRequired && isMissing(option))
  missing.push(...options.map(describeOption))
  const target = findTargetOptions(command)
  if (hasTarget(command) && target.every(isMissing)) missing.push(target.map(describeOption).join(' or '))
  return missing
}

/** Whether a command requires one of `--url` and `--data`. */
export function hasTarget(command: Command): boolean {
  return findTargetOptions(command).length === 2
}

function findTargetOptions(command: Command): Option[] {
  return command.options.filter((option) => ['url', 'data'].includes(option.attributeName()))
}

function describeOption(option: Option): string {
  const variable = getSetting(option)?.variable
  return variable === undefined ? option.flags : `${option.flags} (or ${variable})`
}

/** The error for all that is missing on a command line, and for the options in `also`. */
export function missingError(command: Command, also: readonly Option[] = []): CommanderError {
  const names: string[] = []
  for (let each: Command | null = command; each; each = each.parent) names.unshift(each.name())
  const missing = [...listMissing(command), ...also.map(describeOption)]
  const message = `missing ${missing.join(', ')}: \`${names.join(' ')} --help\` has an example`
  return new CommanderError(1, 'ingest.missing', message)
}
