import type { Consumer, Cursor, Ingest } from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { Command, Option } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget } from '../connect.ts'
import { refusal } from '../exit-code.ts'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, nonEmpty } from '../options.ts'
import { formatNumber, formatTable, toIsoTime } from '../terminal/format.ts'

export function consumersCommand(io: Io): Command {
  const consumers = new Command('consumers')
    .description('list, set and delete the positions of the readers of a project')
    .addHelpText('after', examples('list'))
  for (const command of [listCommand(io), setCommand(io), deleteCommand(io)]) consumers.addCommand(command)
  return consumers
}

function listCommand(io: Io): Command {
  const command = addTargetOptions(new Command('list').description('list consumers, and how far behind they are'))
  return command
    .addOption(jsonOption())
    .addHelpText('after', `${listHelp}${examples('list')}`)
    .action(async (options: PrintOptions) => {
      const consumers = await connectToKnown(io, parseTarget(command), (ingest) => ingest.listConsumers())
      await printResult(io, options, wire.toWire(wire.ConsumerList, { consumers }), formatConsumerTable(consumers))
    })
}

const deleteHelp = `
With --url, the key needs the scope consume.
`

const listHelp = `
UNREAD is exact up to 1,000 batches, with more than 10 consumers up to fewer, and a lower bound with a +. A consumer whose
cursor is invalid, as after a restore, has "invalid cursor".
`

interface SetOptions extends PrintOptions {
  cursor?: Cursor
  event?: string
  end?: true
}

function setCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('set')
      .description('create a consumer, or move it')
      .argument('<name>', 'name of the consumer')
      .addOption(
        new Option('--cursor <cursor>', 'after the event with this cursor')
          .argParser(nonEmpty)
          .conflicts(['event', 'end']),
      )
      .addOption(new Option('--event <eventId>', 'after this event').argParser(nonEmpty).conflicts('end'))
      .option('--end', 'after all events that are stored now'),
  )
  return command
    .addOption(jsonOption())
    .addHelpText('after', `${setHelp}${examples('set warehouse --end', 'set warehouse --event e-17')}`)
    .action(async (name: string, options: SetOptions) => {
      if (options.cursor === undefined && options.event === undefined && !options.end) {
        command.error('name the position: --cursor <cursor>, --event <eventId> or --end')
      }
      const target = parseTarget(command)
      const result = await connectToKnown(io, target, async (ingest) => {
        const current = await ingest.getConsumer(name)
        const cursor = await findCursor(ingest, options)
        return ingest.putConsumer(name, { cursor, replaces: current?.cursor ?? null })
      })
      await printResult(io, options, wire.toWire(wire.PutConsumerResult, result), `${result.outcome} ${name}`)
    })
}

const setHelp = `
With --url, the key needs the scopes read and consume.
Exit code 3: the consumer moved meanwhile, there are 100 consumers, or the event is not stored. Stop the reader first: it
continues from its own cursor, and its next PUT is refused.
`

async function findCursor(ingest: Ingest, { cursor, event }: SetOptions): Promise<Cursor> {
  if (cursor !== undefined) return cursor
  if (event === undefined) return ingest.lastCursor()
  const found = await ingest.findEvent(event)
  if (found) return found.cursor
  throw refusal('event-not-found', `The project ${ingest.projectId} has no event ${event}.`)
}

function deleteCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('delete').description('delete a consumer').argument('<name>', 'name of the consumer'),
  )
  return command
    .addOption(jsonOption())
    .addHelpText('after', `${deleteHelp}${examples('delete warehouse')}`)
    .action(async (name: string, options: PrintOptions) => {
      const deleted = await connectToKnown(io, parseTarget(command), (ingest) => ingest.deleteConsumer(name))
      await printResult(io, options, wire.toWire(wire.ConsumerPosition, deleted), `deleted ${name}`)
    })
}

function examples(...lines: string[]): string {
  const commands = lines.map((line) => `  ingest consumers ${line} --store data/games --project demo`)
  return ['', lines.length > 1 ? 'Examples:' : 'Example:', ...commands, ''].join('\n')
}

function formatConsumerTable(consumers: readonly Consumer[]): string[] {
  const rows = consumers.map(({ name, cursor, updatedAt, lag }) => [
    name,
    lag ? `${formatNumber(lag.events)}${lag.exact ? '' : '+'}` : 'invalid cursor',
    lag ? formatNumber(lag.seconds) : '',
    toIsoTime(updatedAt),
    cursor,
  ])
  return formatTable([['CONSUMER', 'UNREAD', 'SECONDS BEHIND', 'MOVED', 'CURSOR'], ...rows], [1, 2])
}
