import { readFileSync, writeFileSync } from 'node:fs'
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'

// Writes the tables of docs/http-api.md from the OpenAPI document of the built server:
//
//   node packages/server/scripts/http-api-tables.js

const docsUrl = 'https://github.com/ingest/ingest/blob/main/docs/'

/**
 * Returns the page with the tables between its markers written from the document.
 *
 * @param {string} page
 * @param {any} document
 * @returns {string}
 */
export function fillTables(page, document) {
  /** @type {Record<string, () => string[][]>} */
  const tables = {
    routes: () => routeRows(page, document),
    fields: () => fieldRows(document),
    parameters: () => parameterRows(document),
    members: () => memberRows(document),
    codes: () => codeRows(document),
  }
  return page.replace(/(<!-- table: (\w+) -->\n\n).*?(\n<!-- end -->)/gs, (_, start, name, end) => {
    const rows = tables[name]
    if (!rows) throw new Error(`There is no table "${name}".`)
    return `${start}${toTable(rows())}${end}`
  })
}

/** @param {string} page @param {any} document */
function routeRows(page, { paths }) {
  const headings = new Set([...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading))
  const rows = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method !== 'head')
      .map(([method, { summary, security }]) => {
        const name = `${method.toUpperCase()} ${path}`
        const anchor = name
          .toLowerCase()
          .replaceAll(/[^\w -]/g, '')
          .replaceAll(' ', '-')
        const scope = security[0]?.ingestionKey[0]
        return [
          headings.has(name) ? `[\`${name}\`](#${anchor})` : `\`${name}\``,
          scope ? `\`${scope}\`` : 'none',
          `${summary.charAt(0).toLowerCase()}${summary.slice(1)}`,
        ]
      }),
  )
  return [['Route', 'Scope', 'Purpose'], ...rows]
}

/** @param {any} document */
function fieldRows({ components }) {
  /** @type {Map<string, string[]>} */
  const namesByRule = new Map()
  for (const [name, { description }] of Object.entries(components.schemas.Event.properties)) {
    if (name === 'projectId' || name === 'eventId') continue
    namesByRule.set(description, [...(namesByRule.get(description) ?? []), `\`${name}\``])
  }
  return [['Field', 'Rule'], ...[...namesByRule].map(([rule, names]) => [names.join(', '), rule])]
}

/** @param {any} document */
function parameterRows({ paths }) {
  /** @type {{ name: string, in: string, description: string, schema: { default?: number } }[]} */
  const parameters = paths['/v1/events'].get.parameters
  const rows = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, description, schema }) => {
      return [`\`${name}\``, schema.default?.toLocaleString('en-US') ?? 'none', withLocalLinks(description)]
    })
  return [['Parameter', 'Default', 'Meaning'], ...rows]
}

/** @param {any} document */
function memberRows({ components }) {
  const rows = Object.entries(components.schemas.Problem.properties).map(([name, { description }]) => {
    return [`\`${name}\``, withLocalLinks(description)]
  })
  return [['Member', 'Meaning'], ...rows]
}

/** @param {any} document */
function codeRows({ components }) {
  const rows = Object.entries(components.examples).map(([code, { summary, value }]) => {
    return [`\`${code}\``, String(value.status), value.retryable ? 'yes' : 'no', withLocalLinks(summary)]
  })
  return [['Code', 'Status', 'Retryable', 'Meaning and what to do'], ...rows]
}

/** @param {string} markdown */
export function withLocalLinks(markdown) {
  return markdown.replaceAll(`${docsUrl}http-api.md#`, '#').replaceAll(docsUrl, '')
}

/** @param {string[][]} rows */
export function toTable([head = [], ...rows]) {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)))
  const line = (/** @type {string[]} */ cells) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |\n`
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('')
}

/** The document that a server with this build serves. */
export async function readDocument() {
  const { createIngest, openMemoryStore } = await import('@ingest/core')
  const { toFetchHandler } = await import('../dist/index.js')
  const handler = toFetchHandler(createIngest({ store: openMemoryStore() }))
  const response = await handler(new Request('http://localhost/openapi.json'))
  return response.json()
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const path = fileURLToPath(new URL('../../../docs/http-api.md', import.meta.url))
  writeFileSync(path, fillTables(readFileSync(path, 'utf8'), await readDocument()))
}
