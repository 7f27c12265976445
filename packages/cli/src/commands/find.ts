import { eventLine } from '@ingest/core'
import { Command } from 'commander'
import { addTargetOptions, connect, parseTarget, requireProject } from '../connect.ts'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption } from '../options.ts'
import { toIsoTime } from '../terminal/format.ts'

/** `ingest find`. */
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
      await connect(io, target, async (ingest, embedded) => {
        await requireProject(embedded, target.project)
        const event = await ingest.findEvent(eventId)
        if (!event) {
          const message = `The project ${target.project} has no event ${eventId}.`
          throw new CommandFailure({ exitCode: exitCode.refused, code: 'event-not-found', message, retryable: false })
        }
        const { cursor, receivedAt, bytes, erased } = event
        const receivedText = toIsoTime(receivedAt)
        if (erased !== undefined) {
          if (json) await writeJson(io, { ok: true, cursor, receivedAt: receivedText, erased })
          else
            await writeStdout(
              io,
              `received  ${receivedText}\ncursor    ${cursor}\nerased    its id is known, its bytes are deleted\n`,
            )
          return
        }
        const line = eventLine(event)
        const text = json
          ? Buffer.concat([
              Buffer.from(JSON.stringify({ ok: true, cursor, receivedAt: receivedText }).replace(/}$/, ',')),
              // the bytes of the event as it was sent, on one line
              line.subarray(line.indexOf('"event":')),
            ])
          : Buffer.concat([Buffer.from(`received  ${receivedText}\ncursor    ${cursor}\n\n`), bytes, Buffer.from('\n')])
        const { escapeControlCharacters } = await import('../terminal/format.ts')
        // whitespace between JSON tokens is kept
        await writeStdout(
          io,
          io.stdout.isTTY ? text.toString().replaceAll(/[^\t\r\n]+/g, escapeControlCharacters) : text,
        )
      })
    })
}

const findHelp = `
Exit code 3: the event is not stored, or the project is unknown. An erased event prints no bytes; with --json, its id is
in "erased".

Examples:
  ingest find e-1 --store data/games --project demo
  INGEST_KEY=… ingest find e-1 --url http://127.0.0.1:8787 --project demo --json
`
