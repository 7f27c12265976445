import { writeFileSync } from 'node:fs'
import { argv } from 'node:process'
import { readDocument, toTable, withLocalLinks } from './http-api-tables.js'

// Writes the OpenAPI document of the built server as a page of the documentation site:
//
//   node packages/server/scripts/openapi-page.js docs/api/http.md

/** @typedef {any} Json part of an OpenAPI document */

const [path = ''] = argv.slice(2)
writeFileSync(path, toPage(await readDocument()))

/** @param {Json} document */
function toPage(document) {
  const { info, tags, components, paths } = document
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method !== 'head')
      .map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  )
  const sections = tags.map((/** @type {Json} */ { name: tag, description }) => [
    `## ${tag.charAt(0).toUpperCase()}${tag.slice(1)}\n\n${description}`,
    ...operations
      .filter(({ operation }) => operation.tags.includes(tag))
      .map(({ name, operation }) => operationSection(name, operation, components)),
  ])
  const schemas = Object.entries(components.schemas).map(([name, schema]) => schemaSection(name, schema))
  return [
    '# OpenAPI',
    `${info.description} A server returns the [document](https://spec.openapis.org/oas/v3.1.1.html) of this page at \`GET /openapi.json\`.`,
    ...sections.flat(),
    '## Schemas',
    ...schemas,
  ]
    .map((part) => `${withPageLinks(part)}\n`)
    .join('\n')
}

/** @param {string} name @param {Json} operation @param {Json} components */
function operationSection(name, { summary, description, parameters, requestBody, responses }, components) {
  const resolved = parameters.map((/** @type {Json} */ { $ref, ...parameter }) =>
    $ref ? components.parameters[$ref.split('/').at(-1)] : parameter,
  )
  return [
    `### ${name}`,
    `${summary}. ${description}`,
    tableOf(
      ['Parameter', 'In', 'Type', 'Meaning'],
      resolved.map((/** @type {Json} */ { name, in: place, required, schema, description }) => {
        return [`\`${name}\`${required ? ', required' : ''}`, place, typeOf(schema), description]
      }),
    ),
    ...(requestBody ? ['**Request**', ...contents(requestBody.content)] : []),
    tableOf(
      ['Status', 'Meaning', 'Body'],
      Object.entries(responses).map(([status, { $ref, ...response }]) => {
        const { description, content = {} } = $ref ? components.responses[$ref.split('/').at(-1)] : response
        const types = Object.entries(content).map(([type, { schema }]) => `\`${type}\`${linkOf(schema)}`)
        return [status, description, types.join(', ')]
      }),
    ),
    ...Object.entries(responses)
      .filter(([status]) => status.startsWith('2'))
      .flatMap(([status, { content = {} }]) => examples(`Response ${status}`, content)),
  ].join('\n\n')
}

/** @param {Json} content */
function contents(content) {
  const types = Object.entries(content).map(([type, { schema }]) => `\`${type}\`${linkOf(schema)}`)
  return [types.join(', '), ...examples('', content)]
}

/** @param {string} title @param {Json} content */
function examples(title, content) {
  return Object.values(content)
    .filter(({ example }) => typeof example === 'object')
    .flatMap(({ example }) => [
      ...(title ? [`**${title}**`] : []),
      `\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``,
    ])
}

/** A link to the schema of a body, if it has a name. @param {Json} schema */
function linkOf(schema = {}) {
  const named = schema.$ref ? schema : schema.allOf?.find((/** @type {Json} */ part) => part.$ref)
  return named ? `: ${typeOf(named)}` : ''
}

/** @param {string} name @param {Json} schema */
function schemaSection(name, schema) {
  return [
    `### ${name}`,
    ...(schema.description ? [schema.description] : []),
    schema.properties
      ? tableOf(['Field', 'Type', 'Meaning'], fieldRows(schema, ''))
      : `Type: ${typeOf({ ...schema, description: undefined })}`,
  ].join('\n\n')
}

/**
 * The fields of an object, and below each one those of the objects in it.
 *
 * @param {Json} schema
 * @param {string} prefix
 * @returns {string[][]}
 */
function fieldRows({ properties = {}, required = [] }, prefix) {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const path = `${prefix}${name}`
    const optional = required.includes(name) ? '' : '?'
    const variants = [schema, ...(schema.anyOf ?? [])]
    const inner = variants.flatMap((/** @type {Json} */ variant) => [
      ...fieldRows(variant, `${path}.`),
      ...fieldRows(variant.items ?? {}, `${path}[].`),
    ])
    return [[`\`${path}${optional}\``, typeOf(schema), schema.description ?? ''], ...inner]
  })
}

/** @param {Json} schema @returns {string} */
function typeOf(schema = {}) {
  const { $ref, enum: values, const: value, anyOf, oneOf, type, items, format, pattern } = schema
  if ($ref) {
    const name = $ref.split('/').at(-1)
    return `[${name}](#${name.toLowerCase()})`
  }
  if (value !== undefined) return `\`${JSON.stringify(value)}\``
  if (values) return values.map((/** @type {unknown} */ value) => `\`${JSON.stringify(value)}\``).join(', ')
  if (anyOf || oneOf) return (anyOf ?? oneOf).map(typeOf).join(' or ')
  if (type === 'array') return `array of ${typeOf(items)}${rangeOf(schema.minItems, schema.maxItems)}`
  const name = [type ?? 'any'].flat().join(' or ')
  const range = rangeOf(schema.minLength ?? schema.minimum, schema.maxLength ?? schema.maximum)
  return `${name}${format ? `, ${format}` : ''}${pattern ? `, \`${pattern}\`` : ''}${range}`
}

/** @param {number | undefined} min @param {number | undefined} max */
function rangeOf(min, max) {
  const comma = (/** @type {number} */ number) => number.toLocaleString('en-US')
  if (max !== undefined) return min === undefined ? `, at most ${comma(max)}` : `, ${comma(min)} to ${comma(max)}`
  return min ? `, at least ${comma(min)}` : ''
}

/** @param {string[]} head @param {string[][]} rows */
function tableOf(head, rows) {
  const cell = (/** @type {string} */ text) => text.replaceAll('|', '\\|').replaceAll(/\n+/g, '<br>')
  return toTable([head, ...rows.map((row) => row.map((text = '') => cell(text)))])
}

/** Links of the document lead to the repository, those of a page to the pages beside it. @param {string} text */
function withPageLinks(text) {
  return text.replaceAll(/\]\((https:\/\/github\.com\/[^)]+\/docs\/[^)]+)\)/g, (_, url) => {
    const local = withLocalLinks(url)
    return `](../${local.startsWith('#') ? `http-api.md${local}` : local})`
  })
}
