import { type ActivityCommands, type ActivityTable, openActivity } from '../activity/activity-table.ts'
import type { ChunkCommands } from '../chunks/chunk-tables.ts'
import { type EntryCommands, type EntryTables, openEntries } from '../entries/entry-tables.ts'
import { openProjects } from '../entries/projects.ts'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'
import { chunkCount, type MapCommands, type MapCommandTables, putChunk, putMap } from '../maps/map-commands.ts'
import { openMapTables } from '../maps/map-tables.ts'
import { asBuffer } from '../threads/run-command.ts'

/** The bytes that a command counts while it is queued. */
export function bytesOf(command: Command): number {
  const bodies = command.type === 'putActivity' ? command.rows : []
  return commandBytes + rowBytes * rowCount(command) + bodies.reduce((sum, { body }) => sum + body.length, 0)
}

const commandBytes = 256
const rowBytes = 256

/** The number of rows that a large command writes or looks up; 0 for others. */
export function rowCount(command: Command): number {
  if (command.type === 'putMap') return chunkCount(command)
  if (command.type === 'putActivity') return command.rows.length
  return command.type === 'removeActivity' ? command.keys.length : 0
}

/** The commands of the writer other than appending, and their results. */
export interface CommandResults extends EntryCommands, ActivityCommands, ChunkCommands, MapCommands {}

export type CommandType = keyof CommandResults
export type Command = CommandResults[CommandType]['command']
export type CommandResult = CommandResults[CommandType]['result']

export interface CommandTables extends MapCommandTables {
  activity: ActivityTable
  entries: EntryTables
}

/** Opens the tables of all commands up front, as tables must not be opened in a transaction. */
export function openCommandTables(table: (name: TableName) => Rows, onGarbage: () => void): CommandTables {
  const projects = openProjects(table)
  return {
    activity: openActivity(table),
    entries: openEntries(table, projects),
    maps: openMapTables(table, onGarbage),
    projects,
  }
}

/** Runs a command. Only inside a write transaction. */
export function runCommand(tables: CommandTables, command: Command): CommandResult {
  const { activity, entries, maps } = tables
  switch (command.type) {
    case 'putEntry': {
      const table = entries[command.kind]
      if (table.json(command.projectId) !== command.before) return false
      table.put(command.projectId, command.after)
      return true
    }
    case 'putActivity':
      for (const row of command.rows) activity.put(row)
      return true
    case 'removeActivity':
      return command.keys.filter((key) => activity.remove(asBuffer(key))).length
    case 'putMap':
      return putMap(tables, command)
    case 'putChunk':
      return putChunk(maps, command)
    case 'releaseChunks':
      return maps.releaseChunks()
    case 'resolveAwaited': {
      const { project, digest, touchedAt } = command
      if (maps.chunks.isStored(project, digest)) maps.pending.resolveAwaited(project, digest, touchedAt)
      return true
    }
    case 'sweepMap':
      maps.sweep(command.project, command.map, command.touchedBefore)
      return maps.releaseChunks()
    case 'saveOrphansFrom':
      maps.chunks.saveOrphansFrom(command.from && asBuffer(command.from))
      return true
    case 'markGarbage':
      for (const blobKey of command.blobKeys.map(asBuffer)) {
        if (!maps.chunks.isUsed(blobKey)) maps.chunks.markGarbage(blobKey)
      }
      return true
    case 'collectGarbage':
      maps.chunks.collectGarbage(command.blobKeys.map(asBuffer))
      return true
  }
}
