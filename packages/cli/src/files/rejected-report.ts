import type { RejectedInput, ValueForm } from '@ingest/client'
import { type Io, printMessage } from '../io.ts'
import { escapeControlCharacters } from '../terminal/format.ts'
import type { Write } from './check-content.ts'
import { writeFile } from './write-file.ts'

/** Where each id was first seen. */
export interface FirstSeen {
  find(id: string): number | undefined
  add(id: string, at: number): void
}

/** A Map of Node holds at most 2^24 entries, and grows by doubling. */
const idsPerMapMax = 2 ** 23

/** Remembers ids and where they were, in about 100 bytes of memory each. */
export function createFirstSeen(idsMax = idsPerMapMax): FirstSeen {
  let newest = new Map<string, number>()
  const maps = [newest]
  return {
    find(id) {
      for (const map of maps) {
        const at = map.get(id)
        if (at !== undefined) return at
      }
      return undefined
    },
    add(id, at) {
      if (newest.size === idsMax) {
        newest = new Map()
        maps.push(newest)
      }
      // a part of a longer text would keep all of it in memory
      newest.set(Buffer.from(id).toString(), at)
    },
  }
}

/** Who is told of events that are not stored. */
export interface RejectedReport {
  note(rejected: readonly RejectedInput[], form: ValueForm | undefined): Promise<void>
  /** Of another event, which is not kept. */
  mention(at: number, form: ValueForm | undefined, eventId: string, what: string): void
}

export interface RejectedOptions {
  /** Where they are kept, an event a line, with their issues. */
  rejected?: string
  quiet?: true
}

/** So many are shown to somebody who does not keep them. */
const shownMax = 5
/** So much is shown of a text that somebody else wrote. */
const shownCharactersMax = 120

/**
 * Keeps what `use` notes in the file that was asked for, or shows the first of it on standard error; also when `use`
 * fails.
 *
 * @throws {IngestError} what `writeFile` refuses with, and what `use` throws.
 */
export async function withRejectedReport<T>(
  io: Pick<Io, 'stderr'>,
  { rejected: file, quiet }: RejectedOptions,
  use: (report: RejectedReport) => Promise<T>,
): Promise<T> {
  const shown: string[] = []
  let hidden = 0
  const show = (line: () => string) => (shown.length < shownMax ? shown.push(line()) : hidden++)

  function reportTo(write?: Write): RejectedReport {
    return {
      async note(rejected, form) {
        if (write) await write(Buffer.concat(rejected.map((each) => toRejectedLine(each, form))))
        else for (const { at, eventId, issues } of rejected) show(() => `${describeEvent(at, form, eventId)}: ${describeIssues(issues)}`)
      },
      mention: (at, form, eventId, what) => void show(() => `${describeEvent(at, form, eventId)}: ${what}`),
    }
  }

  try {
    if (file === undefined) return await use(reportTo())
    let outcome: Promise<T> | undefined
    await writeFile(file, async (write) => {
      let unwritten: unknown
      const noting: Write = (bytes) =>
        write(bytes).catch((error) => {
          unwritten = error
          throw error
        })
      outcome = use(reportTo(noting))
      // what else fails does not take away what was noted
      await outcome.catch(() => {})
      if (unwritten) throw unwritten
    })
    return await (outcome as Promise<T>)
  } finally {
    if (!quiet) {
      for (const line of shown) printMessage(io, line)
      if (hidden > 0) printMessage(io, `… and ${hidden} more`)
    }
  }
}

/** A line of the file: `{ "line" or "index", "eventId", "issues", "event" }`, the event as it came. */
function toRejectedLine({ at, eventId, issues, event }: RejectedInput, form: ValueForm | undefined): Buffer {
  const place = form === 'array' ? 'index' : 'line'
  const head = JSON.stringify({ [place]: at, eventId, issues }).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"event":`), event, Buffer.from('}\n')])
}

/** Where an event stands, for people. */
export function describePosition(at: number, form: ValueForm | undefined): string {
  return form === 'array' ? `element ${at}` : `line ${at}`
}

function describeEvent(at: number, form: ValueForm | undefined, eventId: string | null): string {
  return eventId === null ? describePosition(at, form) : `${describePosition(at, form)}, ${truncate(eventId)}`
}

function describeIssues(issues: RejectedInput['issues']): string {
  return issues.map(({ path, message }) => (path === '' ? message : `${truncate(path)}: ${message}`)).join(' ')
}

/** No more of a text than a line has room for. */
function truncate(text: string): string {
  return escapeControlCharacters(text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text)
}
