import type { Verdict } from '@ingest/checks/sender'
import { Command, CommanderError, Option } from 'commander'
import { CommandFailure, exitCode } from '../exit-code.ts'
import { type Io, type PrintOptions, printResult, writeStdout } from '../io.ts'
import { jsonOption, parsePositiveDuration } from '../options.ts'
import { escapeControlCharacters, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface ConformanceCommandOptions extends PrintOptions {
  rule?: string[]
  list?: true
  spool?: true
  patience: number
}

export function conformanceCommand(io: Io): Command {
  return new Command('conformance')
    .description('check the program of a sender against the rules for clients')
    .argument('[command...]', 'the program of the sender, with its arguments')
    .addOption(new Option('--rule <id>', 'check this rule only; may be repeated').argParser(collect))
    .addOption(new Option('--list', 'print the rules'))
    .addOption(new Option('--spool', 'check the rules for a spool too'))
    .addOption(
      new Option('--patience <duration>', 'how long the program may take for a step')
        .argParser(parsePositiveDuration)
        .default(30_000, '30s'),
    )
    .addOption(jsonOption())
    .addHelpText('after', conformanceHelp)
    .action(async ([command, ...args]: string[], options: ConformanceCommandOptions) => {
      const { notChecked, runConformance, senderRules, startCommand } = await import('@ingest/checks/sender')
      if (options.list) {
        const rules = senderRules.map(({ id, rule, expected }) => ({ id, rule, expected }))
        return printResult(io, options, { rules }, rules.map(formatRule))
      }
      if (command === undefined) {
        throw new CommanderError(1, 'ingest.command', "missing required argument 'command': the program of a sender")
      }
      const needsSpool = new Set(senderRules.filter((rule) => rule.needsSpool).map(({ id }) => id))
      const isShown = ({ id }: Verdict) => !options.json && (options.spool || !needsSpool.has(id))
      const onVerdict = (verdict: Verdict) => void (isShown(verdict) && writeStdout(io, `${formatVerdict(verdict)}\n`))
      const verdicts = await abortOnSignal(io, '', (signal) =>
        runConformance({
          start: startCommand(command, args),
          rules: options.rule,
          hasSpool: options.spool,
          patienceMs: options.patience,
          signal,
          onVerdict,
        }),
      )
      if (!options.json) {
        const skipped = verdicts.filter((verdict) => !isShown(verdict)).length
        if (skipped > 0)
          await writeStdout(io, `skipped: ${formatCount(skipped, 'rule')} for senders with a spool, see --spool\n`)
        await writeStdout(io, `not checked: ${notChecked}\n`)
      }
      await report(io, options, verdicts)
    })
}

const conformanceHelp = `
Starts the program once for each rule, with a server that fails on purpose, and gives it events on standard input. See
docs/senders.md for what the program reads and prints. Exit code 5: the sender breaks a rule.

Examples:
  ingest conformance -- python3 my_sender.py
  ingest conformance --rule redirect --rule drop -- ./my-sender
  ingest conformance --list
`

function collect(id: string, earlier: string[] = []): string[] {
  return [...earlier, id]
}

async function report(io: Io, { json }: PrintOptions, rules: readonly Verdict[]): Promise<void> {
  const count = (outcome: Verdict['outcome']) => rules.filter((rule) => rule.outcome === outcome).length
  const failed = rules.filter((rule) => rule.outcome === 'failed')
  if (failed.length === 0) {
    return printResult(io, { json }, { rules }, `${count('passed')} passed, ${count('skipped')} skipped`)
  }
  const names = failed.map(({ id }) => id).join(', ')
  throw new CommandFailure({
    exitCode: exitCode.invalid,
    code: 'rules-failed',
    message: `the sender breaks ${formatCount(failed.length, 'rule')}: ${names}`,
    retryable: false,
    details: { rules },
  })
}

const marks = { passed: '✓', failed: '✗', skipped: 'skipped' }

function formatVerdict({ outcome, expected, seen, note, ...rule }: Verdict): string {
  const lines = [`${marks[outcome]} ${formatRule(rule)}`]
  if (outcome === 'failed') lines.push(`expected: ${expected}`, `seen: ${escapeControlCharacters(seen ?? '')}`)
  if (note !== null) lines.push(`${outcome === 'skipped' ? 'reason' : 'not checked'}: ${note}`)
  return lines.join('\n    ')
}

function formatRule({ id, rule }: Pick<Verdict, 'id' | 'rule'>): string {
  return `${id.padEnd(19)} ${rule}`
}
