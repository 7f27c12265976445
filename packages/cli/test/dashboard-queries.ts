import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const path = join(import.meta.dirname, '../../../../docs/grafana/ingest.json')

/** The queries of the panels and annotations of the dashboard, with its variables in place of their values. */
export function dashboardQueries(): string[] {
  return stringsOf('expr')
}

/** The queries of its variables. */
export function variableQueries(): string[] {
  return stringsOf('definition')
}

function stringsOf(member: string): string[] {
  const pattern = new RegExp(`"${member}": ("(?:[^"\\\\]|\\\\.)*")`, 'g')
  return Array.from(readFileSync(path, 'utf8').matchAll(pattern), ([, json = '']) => JSON.parse(json))
}
