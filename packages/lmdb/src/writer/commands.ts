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

/** The function of each command. Only inside a write transaction. */
const actions: {
  [Type in CommandType]: (
    tables: CommandTables,
    command: CommandResults[Type]['command'],
  ) => CommandResults[Type]['result']
} = {
  putEntry({ entries }, { kind, projectId, before, after }) {
    if (entries[kind].json(projectId) !== before) return false
    entries[kind].put(projectId, after)
    return true
  },
  putActivity({ activity }, { rows }) {
    for (const row of rows) activity.put(row)
    return true
  },
  removeActivity: ({ activity }, { keys }) => keys.filter((key) => activity.remove(asBuffer(key))).length,
  putMap,
  putChunk: ({ maps }, command) => putChunk(maps, command),
  releaseChunks: ({ maps }) => maps.releaseChunks(),
  resolveAwaited({ maps }, { project, digest, touchedAt }) {
    if (maps.chunks.isStored(project, digest)) maps.pending.resolveAwaited(project, digest, touchedAt)
    return true
  },
  sweepMap({ maps }, { project, map, touchedBefore }) {
    maps.sweep(project, map, touchedBefore)
    return maps.releaseChunks()
  },
  saveOrphansFrom({ maps }, { from }) {
    maps.chunks.saveOrphansFrom(from && asBuffer(from))
    return true
  },
  markGarbage({ maps }, { blobKeys }) {
    for (const blobKey of blobKeys.map(asBuffer)) if (!maps.chunks.isUsed(blobKey)) maps.chunks.markGarbage(blobKey)
    return true
  },
  collectGarbage({ maps }, { blobKeys }) {
    maps.chunks.collectGarbage(blobKeys.map(asBuffer))
    return true
  },
}

/** Runs a command. Only inside a write transaction. */
export function runCommand(tables: CommandTables, command: Command): CommandResult {
  return actions[command.type](tables, command as never)
}
