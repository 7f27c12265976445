// @ts-check
import { randomBytes } from 'node:crypto'
// @ts-expect-error: the types are those of Node 20, which has no node:sqlite
import { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
  aheadMsMax,
  buildsSearchedMax,
  contentsAfterExpiry,
  declaredBytes,
  decodeEvents,
  digestOf,
  digestsOf,
  eventCursors,
  foldBuildId,
  IngestError,
  readyMapsMax,
} from '@ingest/core'

// A store in one SQLite database, written to show the whole store contract in one file. It works on the thread that
// serves requests, with one sync for each batch: @ingest/lmdb and @ingest/postgres are made for load.

/** `builds.frozenAt` of an open build: lists begin with open builds. */
const open = Number.MAX_SAFE_INTEGER
/** Maximum rows that one transaction of a long operation changes. */
const stepRows = 100

// TEXT is compared as UTF-8, byte by byte: the order of the contract.
const schema = `
  CREATE TABLE IF NOT EXISTS identity (id BLOB, epoch BLOB) STRICT;
  -- projects with events; all events up to the position 'expired' are tombstones
  CREATE TABLE IF NOT EXISTS heads (project TEXT PRIMARY KEY, position INT, checksum INT, batches INT, bytes INT,
    firstAt INT, lastAt INT, expired INT) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS batches (project TEXT, number INT, lastPosition INT, receivedAt INT,
    PRIMARY KEY (project, number)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS batchesByTime ON batches (project, receivedAt, lastPosition);
  -- positions of a project have no gaps; the checksum is of all events up to this one, so a cursor is refused after
  -- anything before it has changed, as in a restored copy; a tombstone has no bytes and keeps the checksum
  CREATE TABLE IF NOT EXISTS events (project TEXT, position INT, id TEXT, batch INT, receivedAt INT, checksum INT, bytes BLOB,
    PRIMARY KEY (project, position), UNIQUE (project, id)) STRICT;
  -- builds that are frozen or have maps
  CREATE TABLE IF NOT EXISTS builds (project TEXT, build TEXT, frozenAt INT,
    PRIMARY KEY (project, build)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS buildsByTime ON builds (project, frozenAt, build);
  -- complete and pending are JSON; pendingBytes is declaredBytes of the pending map
  CREATE TABLE IF NOT EXISTS maps (project TEXT, build TEXT, place TEXT, complete TEXT, pending TEXT, pendingBytes INT,
    PRIMARY KEY (project, build, place)) STRICT;
  CREATE INDEX IF NOT EXISTS pendingMaps ON maps (project) WHERE pending IS NOT NULL;
  -- the chunks that maps name, and those that are stored: each of them is named
  CREATE TABLE IF NOT EXISTS names (project TEXT, digest TEXT, build TEXT, place TEXT, isPending INT, size INT,
    PRIMARY KEY (project, digest, build, place, isPending)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS namesByMap ON names (project, build, place, isPending);
  CREATE TABLE IF NOT EXISTS chunks (project TEXT, digest TEXT, bytes BLOB, PRIMARY KEY (project, digest)) STRICT;
  CREATE TABLE IF NOT EXISTS entries (project TEXT, kind TEXT, entry TEXT, PRIMARY KEY (project, kind)) STRICT;
  CREATE TABLE IF NOT EXISTS activity (project TEXT, span TEXT, at INT, writer TEXT, body TEXT,
    PRIMARY KEY (project, span, at, writer)) STRICT;
  CREATE INDEX IF NOT EXISTS activityByTime ON activity (at);
`

/**
 * Opens a store in a database file, which is created if it is missing. Several processes may open the same file.
 *
 * @param {string} path
 * @returns {import('@ingest/core').Store}
 */
export function openSqliteStore(path) {
  const db = new DatabaseSync(path, { timeout: 5000 })
  // WAL: readers and the writer do not wait for each other. FULL: a commit is synced before any reader sees it.
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN IMMEDIATE; ${schema}`)
  const statements = new Map()

  /** @param {TemplateStringsArray} text */
  function prepare(text) {
    const statement = statements.get(text) ?? db.prepare(text.join('?'))
    statements.set(text, statement)
    return statement
  }

  /** @type {(text: TemplateStringsArray, ...values: unknown[]) => { changes: number }} */
  const run = (text, ...values) => prepare(text).run(...values)
  // rows of node:sqlite have no prototype: copies can be returned
  /** @type {(text: TemplateStringsArray, ...values: unknown[]) => any[]} */
  const all = (text, ...values) =>
    prepare(text)
      .all(...values)
      .map((/** @type {object} */ row) => ({ ...row }))
  /** @type {(text: TemplateStringsArray, ...values: unknown[]) => any} */
  const get = (text, ...values) => all(text, ...values)[0]

  /**
   * Runs an operation in one transaction. `BEGIN` reads a snapshot. `BEGIN IMMEDIATE` excludes the writers of all
   * processes, so nothing changes between a read and the write that follows from it.
   *
   * @template T
   * @param {'BEGIN' | 'BEGIN IMMEDIATE'} begin
   * @param {() => T} operation
   */
  async function transact(begin, operation) {
    if (!db.isOpen) throw new IngestError('store-closed', 'The store is closed.')
    try {
      db.exec(begin)
      const result = operation()
      db.exec('COMMIT')
      return result
    } catch (error) {
      // some errors of SQLite have rolled back already
      if (db.isTransaction) db.exec('ROLLBACK')
      throw toStoreError(error)
    }
  }

  /** @type {<T>(operation: () => T) => Promise<T>} */
  const read = (operation) => transact('BEGIN', operation)
  /** @type {<T>(operation: () => T) => Promise<T>} */
  const write = (operation) => transact('BEGIN IMMEDIATE', operation)

  run`INSERT INTO identity SELECT ${randomBytes(16)}, ${randomBytes(16)} WHERE NOT EXISTS (SELECT * FROM identity)`
  const identity = get`SELECT id, epoch FROM identity`
  db.exec('COMMIT')

  // Events

  const noEvents = { position: 0, checksum: 0, batches: 0, bytes: 0, expired: 0 }
  /** @param {string} project */
  const headOf = (project) => get`SELECT * FROM heads WHERE project = ${project}` ?? noEvents

  /** @param {string} project @param {number} position */
  const eventAt = (project, position) => get`SELECT * FROM events WHERE project = ${project} AND position = ${position}`

  /** @param {string} project @param {string} cursor */
  function positionOf(project, cursor) {
    const cursors = eventCursors(identity, project)
    const position = cursors.decode(cursor)
    cursors.check(cursor, position, position === 0 ? 0 : eventAt(project, position)?.checksum)
    return position
  }

  /** @param {string} project @param {string | undefined} after @param {number} from the position before the range */
  function startOf(project, after, from = 0) {
    const { lastPosition = 0 } =
      get`SELECT lastPosition FROM batches WHERE project = ${project} AND receivedAt < ${from}
        ORDER BY receivedAt DESC, lastPosition DESC LIMIT 1` ?? {}
    return Math.max(after === undefined ? 0 : positionOf(project, after), lastPosition)
  }

  /** @param {any} row @returns {import('@ingest/core').StoredEvent} */
  function storedEvent({ project, position, id, receivedAt, checksum, bytes }) {
    const cursor = eventCursors(identity, project).encode(position, checksum)
    return bytes ? { cursor, receivedAt, bytes } : { cursor, receivedAt, bytes: new Uint8Array(), erased: id }
  }

  /** @param {string} project @param {any[]} rows events that are not erased */
  function eraseEvents(project, rows) {
    const bytes = rows.reduce((sum, { size }) => sum + size, 0)
    for (const { position } of rows) {
      run`UPDATE events SET bytes = NULL WHERE project = ${project} AND position = ${position}`
    }
    run`UPDATE heads SET bytes = bytes - ${bytes} WHERE project = ${project}`
    return { events: rows.length, bytes }
  }

  // Maps

  /** @param {string} project @param {string} build @param {number} at returns whether it was open */
  function freeze(project, build, at) {
    const { changes } = run`INSERT INTO builds VALUES (${project}, ${build}, ${at})
      ON CONFLICT DO UPDATE SET frozenAt = excluded.frozenAt WHERE frozenAt = ${open}`
    // isPendingVoid in SQL
    const voided = all`SELECT place, complete FROM maps
      WHERE ${changes} AND project = ${project} AND build = ${build} AND complete IS NOT NULL AND pending IS NOT NULL`
    for (const { place, complete } of voided) {
      replaceSlot({ projectId: project, buildId: build, placeId: place }, { complete: JSON.parse(complete) })
    }
    return changes > 0
  }

  /** @param {string} project @param {string} digest */
  const hasChunk = (project, digest) =>
    get`SELECT 1 FROM chunks WHERE project = ${project} AND digest = ${digest}` !== undefined

  /** @param {import('@ingest/core').MapKey} key @returns {import('@ingest/core').MapSlot} */
  function slotOf({ projectId: project, buildId: build, placeId: place }) {
    const { frozenAt = open } = get`SELECT frozenAt FROM builds WHERE project = ${project} AND build = ${build}` ?? {}
    const { complete, pending } =
      get`SELECT * FROM maps WHERE project = ${project} AND build = ${build} AND place = ${place}` ?? {}
    /** @type {import('@ingest/core').MapSlot} */
    const slot = frozenAt === open ? {} : { frozenAt }
    if (complete) slot.complete = JSON.parse(complete)
    if (pending) {
      const parsed = JSON.parse(pending)
      slot.pending = { ...parsed, missing: digestsOf(parsed.manifest).filter((digest) => !hasChunk(project, digest)) }
    }
    return slot
  }

  /** @param {import('@ingest/core').MapKey} key @param {import('@ingest/core').MapContents} contents */
  function replaceSlot({ projectId: project, buildId: build, placeId: place }, { complete, pending }) {
    const named = all`SELECT DISTINCT digest FROM names WHERE project = ${project} AND build = ${build} AND place = ${place}`
    run`DELETE FROM names WHERE project = ${project} AND build = ${build} AND place = ${place}`
    run`DELETE FROM maps WHERE project = ${project} AND build = ${build} AND place = ${place}`
    if (complete || pending) {
      const texts = [complete, pending].map((map) => (map ? JSON.stringify(map) : null))
      const pendingBytes = pending ? declaredBytes(pending.manifest) : null
      run`INSERT INTO maps VALUES (${project}, ${build}, ${place}, ${texts[0]}, ${texts[1]}, ${pendingBytes})`
      run`INSERT INTO builds VALUES (${project}, ${build}, ${open}) ON CONFLICT DO NOTHING`
    } else {
      run`DELETE FROM builds WHERE project = ${project} AND build = ${build} AND frozenAt = ${open}
        AND NOT EXISTS (SELECT * FROM maps WHERE project = ${project} AND build = ${build})`
    }
    for (const [isPending, map] of [complete, pending].entries()) {
      for (const { digest, size } of map?.manifest.chunks ?? []) {
        run`INSERT INTO names VALUES (${project}, ${digest}, ${build}, ${place}, ${isPending}, ${size})
          ON CONFLICT DO UPDATE SET size = max(size, excluded.size)`
      }
    }
    for (const { digest } of named) {
      run`DELETE FROM chunks WHERE project = ${project} AND digest = ${digest}
        AND NOT EXISTS (SELECT * FROM names WHERE project = ${project} AND digest = ${digest})`
    }
  }

  /** @param {string} kind @param {string} project */
  function entryOf(kind, project) {
    const row = get`SELECT entry FROM entries WHERE project = ${project} AND kind = ${kind}`
    return row && JSON.parse(row.entry)
  }

  return {
    append: (project, { body, events, receivedAt: givenAt }) =>
      write(() => {
        const head = headOf(project)
        const receivedAt = Math.max(head.lastAt ?? 0, Math.min(givenAt, Date.now() + aheadMsMax))
        const batch = head.batches + 1
        let [position, checksum, bytesStored, conflicts] = [head.position, head.checksum, head.bytes, 0]
        /** @type {string[]} */
        const frozen = []
        const stored = decodeEvents(body, events).map(({ eventId, buildId, start, end, idStart, idEnd }) => {
          const sent = body.subarray(start, end)
          const bytes = start === idStart && end === idEnd ? null : sent
          const known = get`SELECT bytes FROM events WHERE project = ${project} AND id = ${eventId}`
          if (known) {
            if (bytes && known.bytes && Buffer.compare(bytes, known.bytes) !== 0) conflicts++
            return false
          }
          position++
          checksum = crc32(sent, checksum)
          run`INSERT INTO events
            VALUES (${project}, ${position}, ${eventId}, ${batch}, ${receivedAt}, ${checksum}, ${bytes})`
          bytesStored += bytes?.length ?? 0
          if (buildId !== undefined && freeze(project, buildId, receivedAt)) frozen.push(buildId)
          return true
        })
        if (position > head.position) {
          const { firstAt = receivedAt, expired } = head
          run`INSERT INTO batches VALUES (${project}, ${batch}, ${position}, ${receivedAt})`
          run`REPLACE INTO heads VALUES (${project}, ${position}, ${checksum}, ${batch}, ${bytesStored}, ${firstAt},
            ${receivedAt}, ${expired})`
        }
        return { stored, conflicts, frozen }
      }),

    known: (project, ids) =>
      read(() => ids.map((id) => get`SELECT 1 FROM events WHERE project = ${project} AND id = ${id}` !== undefined)),

    find: (project, id) =>
      read(() => {
        const row = get`SELECT * FROM events WHERE project = ${project} AND id = ${id}`
        return row && storedEvent(row)
      }),

    async *read(project, { after, limit = Number.POSITIVE_INFINITY, from, erased = false, signal } = {}) {
      let position = await read(() => {
        const start = startOf(project, after, from)
        return erased ? start : Math.max(start, headOf(project).expired)
      })
      for (let left = limit; left > 0; ) {
        signal?.throwIfAborted()
        const rows = await read(
          () => all`SELECT * FROM events WHERE project = ${project} AND position > ${position}
            ORDER BY position LIMIT ${stepRows}`,
        )
        if (rows.length === 0) return
        position = rows.at(-1).position
        const page = rows.filter(({ bytes }) => bytes || erased).slice(0, left)
        left -= page.length
        yield page.map(storedEvent)
        // other requests run between two steps
        await setImmediate()
      }
    },

    totals: (project) =>
      read(() => {
        const { position, checksum, batches, bytes, firstAt, lastAt } = headOf(project)
        const lastCursor = eventCursors(identity, project).encode(position, checksum)
        return { events: position, batches, bytes, ...(position > 0 && { firstAt, lastAt }), lastCursor }
      }),

    erase: (project, ids) =>
      write(() => {
        const rows = [...new Set(ids)].flatMap(
          (id) => all`SELECT position, length(bytes) AS size FROM events
            WHERE project = ${project} AND id = ${id} AND bytes IS NOT NULL`,
        )
        return eraseEvents(project, rows).events
      }),

    expire: (project, before) =>
      write(() => {
        const { expired } = headOf(project)
        const rows = all`SELECT position, length(bytes) AS size FROM events
          WHERE project = ${project} AND position > ${expired} AND receivedAt < ${before}
          ORDER BY position LIMIT ${stepRows}`
        run`UPDATE heads SET expired = ${rows.at(-1)?.position ?? expired} WHERE project = ${project}`
        const erased = eraseEvents(
          project,
          rows.filter(({ size }) => size !== null),
        )
        return { ...erased, isDone: rows.length < stepRows }
      }),

    count: (project, { after, from }, batchesMax) =>
      read(() => {
        const { batches, expired } = headOf(project)
        const start = Math.max(startOf(project, after, from), expired)
        const first = eventAt(project, start + 1)
        if (!first) return { events: 0, batchesLeft: 0 }
        const last = Math.min(first.batch + batchesMax - 1, batches)
        const { lastPosition = 0 } =
          get`SELECT lastPosition FROM batches WHERE project = ${project} AND number = ${last}` ?? {}
        // without a batch to count, the last one may end before the cursor
        return { events: Math.max(0, lastPosition - start), batchesLeft: batches - last, firstAt: first.receivedAt }
      }),

    map: (key) => read(() => slotOf(key)),

    maps: (project, { placeId = null, buildId, after = { buildId: '', placeId: '' }, limit }) =>
      read(() => {
        const keys =
          buildId === undefined
            ? all`SELECT project AS projectId, build AS buildId, place AS placeId FROM maps WHERE project = ${project}
                AND (build, place) > (${after.buildId}, ${after.placeId}) AND place = ifnull(${placeId}, place)
                ORDER BY build, place LIMIT ${limit}`
            : all`SELECT project AS projectId, build AS buildId, place AS placeId FROM maps WHERE project = ${project}
                AND build = ${buildId} AND (build, place) > (${after.buildId}, ${after.placeId})
                AND place = ifnull(${placeId}, place) ORDER BY place LIMIT ${limit}`
        return keys.map(({ projectId: _, ...id }) => ({ ...id, slot: slotOf({ projectId: project, ...id }) }))
      }),

    builds: (project, { search, after, limit }) =>
      read(() => {
        const [frozenAt, build] = after ? [after.frozenAt ?? open, after.buildId] : [open, '\u{10ffff}'.repeat(64)]
        const rows = all`SELECT build, frozenAt, (SELECT count(*) FROM maps
            WHERE maps.project = builds.project AND maps.build = builds.build) AS maps
          FROM builds WHERE project = ${project} AND (frozenAt, build) < (${frozenAt}, ${build})
          ORDER BY frozenAt DESC, build DESC LIMIT ${search === undefined ? limit : buildsSearchedMax}`
        const entries = rows.map(({ build, frozenAt, maps }) => ({
          ...{ buildId: build, maps },
          ...(frozenAt < open && { frozenAt }),
        }))
        const wanted = foldBuildId(search ?? '')
        const found = entries.filter(({ buildId }) => foldBuildId(buildId).includes(wanted)).slice(0, limit)
        const isCut = found.length < limit && rows.length === buildsSearchedMax
        return { builds: found, ...(isCut && { last: entries.at(-1) }) }
      }),

    updateMap: (key, { digests = [], uploads = [] }, decide) =>
      write(() => {
        const present = new Set(digests.filter((digest) => hasChunk(key.projectId, digest)))
        const { contents, result } = decide(slotOf(key), present)
        if (contents) {
          replaceSlot(key, contents)
          for (const { digest, bytes } of uploads) {
            run`INSERT INTO chunks SELECT ${key.projectId}, ${digest}, ${bytes}
              WHERE EXISTS (SELECT * FROM names WHERE project = ${key.projectId} AND digest = ${digest})
              ON CONFLICT DO NOTHING`
          }
        }
        return result
      }),

    putChunk: (project, { digest, bytes, receivedAt }) =>
      write(() => {
        const { size } = get`SELECT max(size) AS size FROM names WHERE project = ${project} AND digest = ${digest}`
        const isExisting = hasChunk(project, digest)
        const isStored = !isExisting && size >= bytes.length
        if (isStored) {
          run`INSERT INTO chunks VALUES (${project}, ${digest}, ${bytes})`
          run`UPDATE maps SET pending = json_set(pending, '$.touchedAt', ${receivedAt})
            WHERE (project, build, place) IN
              (SELECT project, build, place FROM names WHERE project = ${project} AND digest = ${digest} AND isPending)`
        }
        if (!isExisting && !isStored) return { outcome: 'undeclared', ready: [] }
        const ready = all`SELECT build AS buildId, place AS placeId FROM maps AS m
          WHERE project = ${project} AND pending IS NOT NULL AND NOT EXISTS (
            SELECT * FROM names AS n WHERE (n.project, n.build, n.place, n.isPending) = (m.project, m.build, m.place, 1)
              AND NOT EXISTS (SELECT * FROM chunks AS c WHERE (c.project, c.digest) = (n.project, n.digest)))
          ORDER BY EXISTS (SELECT * FROM names AS n WHERE
            (n.project, n.digest, n.build, n.place, n.isPending) = (m.project, ${digest}, m.build, m.place, 1)) DESC
          LIMIT ${readyMapsMax}`
        return { outcome: isStored ? 'stored' : 'existing', ready }
      }),

    readChunk: (project, digest) =>
      read(() => {
        const { bytes } = get`SELECT bytes FROM chunks WHERE project = ${project} AND digest = ${digest}` ?? {}
        if (!bytes || digestOf(bytes) === digest) return bytes
        throw new IngestError('store-damaged', `The chunk ${digest} is damaged.`)
      }),

    pendingTotals: (project) =>
      read(
        () => get`SELECT count(*) AS maps, coalesce(sum(iif(frozenAt = ${open}, pendingBytes, 0)), 0) AS bytes
          FROM maps JOIN builds USING (project, build) WHERE project = ${project} AND pending IS NOT NULL`,
      ),

    entry: (kind, project) => read(() => entryOf(kind, project)),

    updateEntry: (kind, project, decide) =>
      write(() => {
        const { entry, result } = decide(entryOf(kind, project))
        if (entry) run`REPLACE INTO entries VALUES (${project}, ${kind}, ${JSON.stringify(entry)})`
        else if (entry === null) run`DELETE FROM entries WHERE project = ${project} AND kind = ${kind}`
        return result
      }),

    projects: (kind = 'project') =>
      read(() => {
        const rows = all`SELECT project FROM entries WHERE kind = ${kind}
          UNION SELECT project FROM heads WHERE ${kind} = 'project'
          UNION SELECT project FROM maps WHERE ${kind} = 'project' ORDER BY project`
        return rows.map(({ project }) => project)
      }),

    putActivity: (rows) =>
      write(() => {
        for (const { projectId, span, at, writer, body } of rows) {
          run`REPLACE INTO activity VALUES (${projectId}, ${span}, ${at}, ${writer}, ${body})`
        }
      }),

    async *activity(project, { span, from, to }) {
      for (let last = { at: from, writer: '' }; last; await setImmediate()) {
        const rows = await read(
          () => all`SELECT at, writer, body FROM activity WHERE project = ${project} AND span = ${span}
            AND (at, writer) > (${last.at}, ${last.writer}) AND at < ${to} ORDER BY at, writer LIMIT ${stepRows}`,
        )
        yield* rows
        last = rows.at(-1)
      }
    },

    async sweep({ mapsTouched, activity }) {
      try {
        for (let deleted = 1; deleted > 0; await setImmediate()) {
          const { changes } = await write(
            () => run`DELETE FROM activity
              WHERE rowid IN (SELECT rowid FROM activity WHERE at < ${activity} LIMIT ${stepRows})`,
          )
          deleted = Number(changes)
        }
      } finally {
        // one map a step, as a map names up to 11,155 chunks; freezes and crashes leave nothing to sweep
        for (let isDone = false; !isDone; await setImmediate()) {
          isDone = await write(() => {
            // isExpired in SQL
            const key = get`SELECT project AS projectId, build AS buildId, place AS placeId FROM maps
              JOIN builds USING (project, build)
              WHERE pending ->> 'touchedAt' < ${mapsTouched} AND frozenAt = ${open} LIMIT 1`
            if (key) replaceSlot(key, contentsAfterExpiry(slotOf(key)))
            return !key
          })
        }
      }
    },

    check: () => write(() => {}),

    async close() {
      if (db.isOpen) db.close()
    },
  }
}

/** Result codes of SQLite that a code of the contract describes: https://www.sqlite.org/rescode.html */
const codes = /** @type {const} */ ({
  5: 'store-locked',
  10: 'store-failed',
  11: 'store-damaged',
  13: 'disk-full',
  26: 'store-damaged',
})

/** @param {any} error */
function toStoreError(error) {
  if (error?.code !== 'ERR_SQLITE_ERROR') return error
  const code = codes[/** @type {keyof typeof codes} */ (error.errcode & 255)] ?? 'internal-error'
  return new IngestError(code, `SQLite: ${error.message}`, { cause: error })
}
