import { IngestError } from '@ingest/core'
import type { ClientBase } from 'pg'
import { toStoreError } from './database-error.ts'

/** A setting that a store requires of the server, the database, the role or a pooler. */
interface Requirement {
  names: readonly string[]
  /** `value` is in the unit of `pg_settings`. */
  isMet(value: string): boolean
  consequence: string
  remedy: string
}

/** Time limits of a session below this would cancel ordinary statements. */
const timeLimitMsMin = 100

const requirements: readonly Requirement[] = [
  {
    names: ['fsync', 'full_page_writes'],
    isMet: (value) => value === 'on',
    consequence: 'which loses acknowledged events in a crash',
    remedy: 'set it to on',
  },
  {
    // `require_durability_1` checks it again, because it may change while a server runs
    names: ['default_transaction_isolation'],
    isMet: hasFreshSnapshots,
    consequence: 'whose snapshots hide what is stored while a statement waits for a lock',
    remedy: 'set it to read committed for this role',
  },
  {
    names: ['exit_on_error'],
    isMet: (value) => value === 'off',
    consequence: 'which ends the connection at a duplicate',
    remedy: 'set it to off for this role',
  },
  {
    names: ['restrict_nonsystem_relation_kind'],
    isMet: (value) => !value.includes('view'),
    consequence: 'which forbids the views of the schema',
    remedy: 'reset it for this role',
  },
  {
    names: ['statement_timeout', 'transaction_timeout', 'idle_session_timeout'],
    isMet: (value) => Number(value) === 0 || Number(value) >= timeLimitMsMin,
    consequence: 'which ends ordinary statements',
    remedy: `set it to 0, or to ${timeLimitMsMin} ms or more, for this role`,
  },
]

function hasFreshSnapshots(isolation: string): boolean {
  return isolation === 'read committed' || isolation === 'read uncommitted'
}

/**
 * Checks the transaction isolation of an open store.
 *
 * @throws {IngestError} `store-failed`, like each write through `require_durability_1`
 */
export function checkIsolation(isolation: string): void {
  if (hasFreshSnapshots(isolation)) return
  const message = `default_transaction_isolation is "${isolation}", and must be "read committed"`
  throw toStoreError(Object.assign(new Error(message), { code: 'IG002' }))
}

/**
 * Checks the settings of a connection, and that PostgreSQL's notices are delivered.
 *
 * @throws {IngestError} `store-incompatible`
 */
export async function checkSettings(client: ClientBase): Promise<void> {
  const names = requirements.flatMap((each) => each.names)
  const { rows } = await client.query('SELECT s.name, s.setting FROM pg_settings s WHERE s.name = ANY ($1)', [names])
  for (const { name, setting } of rows) {
    const requirement = requirements.find((each) => each.names.includes(name))
    if (!requirement || requirement.isMet(setting)) continue
    const { consequence, remedy } = requirement
    throw incompatible(`The database runs with ${name} = ${setting}, ${consequence}: ${remedy}.`)
  }
  await checkNotices(client)
}

const notice = "DO $$ BEGIN PERFORM set_config('client_min_messages', 'notice', true); RAISE NOTICE 'ingest'; END $$"

/** A cancelled wait for the standby is reported only by a notice. */
async function checkNotices(client: ClientBase): Promise<void> {
  let hasArrived = false
  const onNotice = () => {
    hasArrived = true
  }
  client.on('notice', onNotice)
  await client.query(notice).finally(() => client.off('notice', onNotice))
  if (hasArrived) return
  throw incompatible(
    'Notices of the database do not arrive here, so that a cancelled wait for a standby would go unnoticed: connect without the proxy that drops them.',
  )
}

function incompatible(message: string): IngestError {
  return new IngestError('store-incompatible', message)
}
