import type { RejectedInput, ValueForm } from '@ingest/client'
import { type Write, writeFile } from '@ingest/core/internal'
import { type Io, type PrintOptions, printMessage } from '../io.ts'
import { escapeControlCharacters } from '../terminal/format.ts'

/** Collects the input events that were not stored. */
export interface RejectedReport {
  note(rejected: readonly RejectedInput[], form: ValueForm | undefined): Promise<void>
}

export interface RejectedOptions extends PrintOptions {
  /** Path of the file for rejected events, one line each, with their issues. */
  rejected?: string
}

/** Without a file, at most this many are printed. */
const shownMax = 5
const shownCharactersMax = 120

/**
 * Writes the rejected events that `use` reports to the file, or prints the first ones on standard error, even if `use`
 * fails.
 *
 * @throws {IngestError} the codes of `writeFile`, and everything that `use` throws
 */
export async function withRejectedReport<T>(
  io: Pick<Io, 'stderr'>,
  { rejected: file, quiet }: RejectedOptions,
  use: (report: RejectedReport) => Promise<T>,
): Promise<T> {
  const shown: string[] = []
  let hidden = 0
  const show = (line: () => string) => (shown.length < shownMax ? shown.push(line()) : hidden++)

  function createReport(write?: Write): RejectedReport {
    return {
      async note(rejected, form) {
        if (write) await write(Buffer.concat(rejected.map((each) => toRejectedLine(each, form))))
        else
          for (const { at, eventId, issues } of rejected)
            show(() => `${describeEvent(at, form, eventId)}: ${describeIssues(issues)}`)
      },
    }
  }

  try {
    if (file === undefined) return await use(createReport())
    let outcome: Promise<T> | undefined
    await writeFile(file, async (write) => {
      let writeError: unknown
      const writeOrFail: Write = (bytes) =>
        write(bytes).catch((error) => {
          writeError = error
          throw error
        })
      outcome = use(createReport(writeOrFail))
      // a failure of `use` keeps the file
      await outcome.catch(() => {})
      if (writeError) throw writeError
    })
    return await (outcome as Promise<T>)
  } finally {
    if (!quiet) {
      for (const line of shown) printMessage(io, line)
      if (hidden > 0) printMessage(io, `… and ${hidden} more`)
    }
  }
}

/** A line of the file: `{ "line" or "index", "eventId", "issues", "event" }`, with the bytes of the event unchanged. */
function toRejectedLine({ at, eventId, issues, event }: RejectedInput, form: ValueForm | undefined): Buffer {
  const positionName = form === 'array' ? 'index' : 'line'
  const head = JSON.stringify({ [positionName]: at, eventId, issues }).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"event":`), event, Buffer.from('}\n')])
}

/** The position of an event in the input: lines from 1, elements of an array from 0. */
function describePosition(at: number, form: ValueForm | undefined): string {
  return form === 'array' ? `element ${at}` : `line ${at}`
}

function describeEvent(at: number, form: ValueForm | undefined, eventId: string | null): string {
  return eventId === null ? describePosition(at, form) : `${describePosition(at, form)}, ${truncate(eventId)}`
}

function describeIssues(issues: RejectedInput['issues']): string {
  return issues.map(({ path, message }) => (path === '' ? message : `${truncate(path)}: ${message}`)).join(' ')
}

/** Shortens a text from the input and makes it printable on one line. */
function truncate(text: string): string {
  return escapeControlCharacters(text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text)
}
