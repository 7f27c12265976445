import { eventLine, type StoredEvent } from '@ingest/core'
import { Command } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget } from '../connect.ts'
import { refusal } from '../exit-code.ts'
import { type Io, printResult, writeStdout } from '../io.ts'
import { jsonOption } from '../options.ts'
import { escapeControlCharacters, toIsoTime } from '../terminal/format.ts'

export function findCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('find')
      .description('print a stored event, with the time of receipt and its cursor')
      .argument('<eventId>', 'eventId of the event'),
  )
  return command
    .addOption(jsonOption())
    .addHelpText('after', findHelp)
    .action(async (eventId: string, { json }: { json?: true }) => {
      const target = parseTarget(command)
      const event = await connectToKnown(io, target, (ingest) => ingest.findEvent(eventId))
      if (!event) throw refusal('event-not-found', `The project ${target.project} has no event ${eventId}.`)
      const { cursor, erased } = event
      const receivedAt = toIsoTime(event.receivedAt)
      const head = `received  ${receivedAt}\ncursor    ${cursor}`
      if (erased !== undefined) {
        const text = `${head}\nerased    its id is known, its bytes are deleted`
        return printResult(io, { json }, { cursor, receivedAt, erased }, text)
      }
      const output = json
        ? toJsonLine({ ok: true, cursor, receivedAt }, event)
        : Buffer.concat([Buffer.from(`${head}\n\n`), event.bytes, Buffer.from('\n')])
      // keep whitespace between JSON tokens
      const escaped = () => output.toString().replaceAll(/[^\t\r\n]+/g, escapeControlCharacters)
      await writeStdout(io, io.stdout.isTTY ? escaped() : output)
    })
}

/** Adds the member `event` to an object: the bytes of the event as it was sent, on one line. */
function toJsonLine(object: object, event: StoredEvent): Buffer {
  const line = eventLine(event)
  const head = JSON.stringify(object).replace(/}$/, ',')
  return Buffer.concat([Buffer.from(head), line.subarray(line.indexOf('"event":'))])
}

const findHelp = `
Exit code 3: the event is not stored, or the project is unknown. An erased event prints no bytes; with --json, its id is
in "erased".

Examples:
  ingest find e-1 --store data/games --project demo
  INGEST_KEY=… ingest find e-1 --url http://127.0.0.1:8787 --project demo --json
`
