import { Command } from 'commander'
import { exitCode } from './exit-code.ts'
import { CommandFailure } from './failure-of.ts'
import { addTargetOptions, targetOf, withTarget } from './with-target.ts'
import { writeOut } from './write-out.ts'

/** `ingest find`. */
export function findCommand(): Command {
  const command = addTargetOptions(
    new Command('find')
      .description('say whether an event is stored, when it was received and where it stands, and print it')
      .argument('<eventId>', 'the id of the event'),
  )
  return command
    .option('--json', 'one line as `ingest export` prints it: { "cursor", "receivedAt", "event" }')
    .addHelpText('after', '\nAn event that is not stored: exit code 3.\n')
    .action(async (eventId: string, { json }: { json?: true }) => {
      const { eventLine } = await import('@ingest/core')
      const target = targetOf(command)
      await withTarget(target, async (ingest) => {
        const event = await ingest.findEvent(target.project, eventId)
        if (!event) {
          const message = `No event ${eventId} is stored for the project ${target.project}.`
          throw new CommandFailure({ exitCode: exitCode.refused, code: 'event-not-found', message, retryable: false })
        }
        const { cursor, receivedAt, bytes } = event
        const heading = `received  ${new Date(receivedAt).toISOString()}\ncursor    ${cursor}\n\n`
        const text = json ? eventLine(event) : Buffer.concat([Buffer.from(heading), bytes, Buffer.from('\n')])
        const { visible } = await import('./visible.ts')
        // the space between the tokens of JSON stays as it is
        await writeOut(process.stdout.isTTY ? text.toString().replaceAll(/[^\t\r\n]+/g, visible) : text)
      })
    })
}
