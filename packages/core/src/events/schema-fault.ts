import { Format } from 'typebox/format'

const types = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
/** Keywords whose value is data and not a schema. */
const dataKeywords = new Set(['const', 'default', 'enum', 'examples'])

/**
 * What is wrong with a schema that TypeBox would take without a word: an unknown `type` or `format` lets everything
 * pass, and a `$ref` that leads nowhere lets nothing pass, so that senders throw good events away.
 */
export function schemaFault(schema: unknown): string | undefined {
  if (!isNode(schema)) return 'is no object'
  return faultIn(schema, schema, '')
}

type Node = Record<string, unknown>

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}

function faultIn(node: Node, root: Node, path: string): string | undefined {
  const { type, format, $ref } = node
  const strange = [type].flat().find((name) => typeof name === 'string' && !types.has(name))
  if (strange !== undefined) return `has the unknown type "${strange}" at ${path || '/'}`
  if (typeof format === 'string' && !Format.Has(format)) return `has the unknown format "${format}" at ${path || '/'}`
  if (typeof $ref === 'string' && !leadsSomewhere($ref, root)) return `has a $ref at ${path || '/'} that leads nowhere`
  for (const [keyword, value] of Object.entries(node)) {
    if (!isNode(value) || dataKeywords.has(keyword)) continue
    const fault = faultIn(value, root, `${path}/${keyword}`)
    if (fault !== undefined) return fault
  }
  return undefined
}

/** Within the schema: by JSON Pointer, `$id` or `$anchor`. */
function leadsSomewhere(ref: string, root: Node): boolean {
  if (ref === '#') return true
  if (ref.startsWith('#/')) {
    let node: unknown = root
    for (const step of decodeURIComponent(ref).slice(2).split('/')) {
      if (!isNode(node)) return false
      node = node[step.replaceAll('~1', '/').replaceAll('~0', '~')]
    }
    return node !== undefined
  }
  return isNamed(root, ref.replace(/^#/, ''))
}

function isNamed(node: Node, name: string): boolean {
  if (node.$id === name || node.$anchor === name || node.$dynamicAnchor === name) return true
  return Object.values(node).some((value) => isNode(value) && isNamed(value, name))
}
