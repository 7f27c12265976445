/** A table of the schema in a statement, unlike the call of a function, and the name by which the statement uses it. */
const usePattern =
  /\b(into\s+)?ingest\.(\w+)\b(?!\()(?:\s+(?:as\s+)?(?!(?:where|set|on|using|join|left|values|select|for|order|group|limit|do|returning|default|cross)\b)(\w+))?/gi
/** A table that is inserted into: its columns and the first value. */
const insertPattern =
  /\binsert\s+into\s+ingest\.\w+(?:\s+as\s+\w+)?\s*\(\s*project\b[^)]*\)\s*(?:values\s*\(|select(?:\s+distinct)?)\s*(?:project|\$1)\s*[,)]/i
const equalityPattern = /(\$1|[\w.]+)(?:::int)?\s*=\s*(\$1|[\w.]+)/g

/**
 * The uses of tables in statements of a function that are not bound to its argument `project`, or `$1`: a table that is
 * read or changed by an equality of its column `project`, possibly through another table's; one that is inserted into by
 * its first column.
 */
export function crossings(body: string): string[] {
  return body
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .split(';')
    .flatMap((statement) => crossingsOf(statement.replaceAll(/\s+/g, ' ')))
}

function crossingsOf(statement: string): string[] {
  const bound = boundAliases(statement)
  return [...statement.matchAll(usePattern)].flatMap(([use, into, , alias]) => {
    const isBound = into ? insertPattern.test(statement) : alias !== undefined && bound.has(alias)
    return isBound ? [] : [`${use.trim()} in: ${statement.trim()}`]
  })
}

/** The names whose column `project` equals that of the function. */
function boundAliases(statement: string): Set<string> {
  const equalities = [...statement.matchAll(equalityPattern)].map(([, a, b]) => [a, b] as [string, string])
  const bound = new Set(['$1', 'project', 'put_project_1.project'])
  for (let size = 0; size < bound.size; ) {
    size = bound.size
    for (const [a, b] of equalities) {
      if (bound.has(a) && b.endsWith('.project')) bound.add(b)
      if (bound.has(b) && a.endsWith('.project')) bound.add(a)
    }
  }
  return new Set([...bound].map((name) => name.replace(/\.project$/, '')))
}
