import { contentOf, parseId } from '../load/batch-content.js'
import { runCommand } from '../load/run-command.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('./ledger.js').Batch} Batch
 */

/**
 * The contents of an export, each event compared with the ledger.
 *
 * @typedef {object} Exported
 * @property {number} events
 * @property {Map<number, number>} countOf events of each batch
 * @property {(line: string) => void} add one line of the export
 */

/**
 * Compares each line of an export with the ledger: the event was sent, occurs once, has the content that was accepted
 * first, is in the order of receipt, and was not erased before the export began.
 *
 * @param {Site} site
 * @param {{ projectId: string, source: string, startedAt: number }} options `startedAt` is when the export began
 * @returns {Exported}
 */
export function createExportCheck({ run, ledger, retention, projects }, { projectId, source, startedAt }) {
  /** @type {Map<number, Uint8Array>} */
  const seen = new Map()
  /** @type {Map<number, number>} */
  const countOf = new Map()
  // retention may advance while this is read
  const isErasedBefore = projectId === projects.aged ? retention.isErasedBefore : -Infinity
  let lastReceivedAt = 0
  /** @type {{ batch: Batch, texts: string[][], ids: (string | undefined)[] } | undefined} */
  let expected
  const exported = { events: 0, countOf, add }

  /** @param {string} line */
  function add(line) {
    exported.events++
    const text = line.slice(line.indexOf('"event":') + 8, -1)
    const id = /"eventId":"([^"]*)"/.exec(text)?.[1] ?? ''
    const at = parseId(id)
    const batch = at && ledger.batches[at.number]
    const details = { source, projectId, id }
    if (!at || !batch || batch.projectId !== projectId || batch.tries === 0) {
      run.violate('stored ⊆ sent', { ...details, line: line.slice(0, 500) })
      return
    }
    if (expected?.batch !== batch) expected = { batch, texts: [], ids: idsOf(batch) }
    if (expected.ids[at.index] !== id) run.violate('stored ⊆ sent', { ...details, line: line.slice(0, 500) })
    if (!isOfVariant(batch, expected.texts, at.index, text)) {
      run.violate('an event has the content of the first one accepted', {
        ...details,
        batch: batch.number,
        variants: batch.variants.toString(2),
        text: text.slice(0, 800),
      })
    }
    const flags = seen.get(batch.number) ?? new Uint8Array(batch.size)
    seen.set(batch.number, flags)
    if (flags[at.index]) run.violate('each event is stored once', { ...details, batch: batch.number })
    flags[at.index] = 1
    countOf.set(batch.number, (countOf.get(batch.number) ?? 0) + 1)
    const receivedAt = Number(/"receivedAt":(\d+)/.exec(line)?.[1])
    if (receivedAt < lastReceivedAt) run.violate('times of receipt do not decrease', { ...details, receivedAt })
    lastReceivedAt = receivedAt
    const erasedAt = ledger.players.get(batch.player)?.erasedAt ?? Infinity
    if (erasedAt < startedAt || batch.acknowledgedAt < isErasedBefore) {
      run.violate('what is erased is not read', { ...details, batch: batch.number, player: batch.player })
    }
  }

  /** @param {Batch} batch */
  function idsOf(batch) {
    return contentOf(run.seed, batch, 0).events.map(({ id }) => id)
  }

  /** @param {Batch} batch @param {string[][]} texts @param {number} index @param {string} text */
  function isOfVariant(batch, texts, index, text) {
    for (let variant = 0; 2 ** variant <= batch.variants; variant++) {
      if ((batch.variants & (2 ** variant)) === 0) continue
      const known = texts[variant] ?? contentOf(run.seed, batch, variant).events.map((event) => event.text)
      texts[variant] = known
      if (known[index] === text) return true
    }
    return false
  }

  return exported
}

/**
 * Exports a project and compares it with the ledger: every event that was acknowledged before is there, unless it may
 * be erased.
 *
 * @param {Site} site
 * @param {{ projectId: string, store?: string, since?: number, random?: import('../site/run.js').Random }} options `since`
 *   is the time of the copy if the store is one
 * @returns {Promise<Exported | undefined>} undefined if the command did not complete
 */
export async function readExport(site, { projectId, store = site.store, since = Date.now(), random }) {
  const known = site.ledger.acknowledged.length
  const exported = createExportCheck(site, { projectId, source: store, startedAt: since })
  const { isDone } = await runCommand(site, ['export', '--project', projectId, '--store', store], {
    onLine: exported.add,
    ...(random && { random }),
  })
  if (!isDone) return undefined
  for (const batch of site.ledger.acknowledged.slice(0, known)) {
    if (batch.projectId !== projectId || batch.acknowledgedAt >= since || mayBeErased(site, batch)) continue
    const stored = exported.countOf.get(batch.number) ?? 0
    if (stored === batch.valid) continue
    site.run.violate('acknowledged ⊆ stored', {
      source: store,
      projectId,
      batch: batch.number,
      stored,
      lost: batch.valid - stored,
    })
  }
  return exported
}

/** Whether a command may have erased events of the batch. @param {Site} site @param {Batch} batch */
export function mayBeErased({ ledger, projects, retention }, batch) {
  if (ledger.players.get(batch.player)?.isRetired) return true
  return batch.projectId === projects.aged && batch.sentAt < Date.now() - retention.olderThanMs
}
