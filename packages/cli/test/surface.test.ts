import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { createIngest, errorTable, openMemoryStore } from '@ingest/core'
import { toFetchHandler } from '@ingest/server'
import type { Command, Option } from 'commander'
import t from 'tap'
import ts from 'typescript'
import { exitCodeOf } from '../src/exit-code.ts'
import { createProgram } from '../src/program.ts'

const root = join(import.meta.dirname, '../../../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')

const rewrite = 'INGEST_WRITE=1 npx pnpm@10.34.9 run tap packages/cli/test/surface.test.ts'

const printer = ts.createPrinter({ removeComments: true })

/** An Io whose output is never used. */
const silent = { env: {}, stdout: {}, stderr: {} } as Parameters<typeof createProgram>[0]

t.test('surface.txt lists what a user can name, and its types', async (t) => {
  const sections = [
    ...listExports(),
    { title: 'Commands', lines: commandsOf(createProgram(silent)) },
    { title: 'Variables', lines: variablesOf(createProgram(silent)) },
    { title: 'Routes', lines: await listRoutes() },
    { title: 'Error codes: status, exit code', lines: listErrors() },
    { title: 'Metrics', lines: listMetrics() },
  ]
  const text = [
    `Written by \`${rewrite}\`.`,
    ...sections.map(({ title, lines }) => [`# ${title}`, ...lines].join('\n')),
    '',
  ].join('\n\n')
  if (process.env.INGEST_WRITE) writeFileSync(join(root, 'surface.txt'), text.trimEnd().concat('\n'))
  for (const { title, lines } of sections) t.not(lines.length, 0, title)
  t.equal(textOf('surface.txt'), text.trimEnd().concat('\n'), `a line more is a decision; then ${rewrite}`)
})

/** The exports of the published packages, except for the entries that only sibling packages import. */
function listExports(): { title: string; lines: string[] }[] {
  const entries = readdirSync(join(root, 'packages')).sort().flatMap(entriesOf)
  const options = { module: ts.ModuleKind.NodeNext, noLib: true, types: [] }
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    options,
  )
  return entries.map(({ title, file }) => ({ title, lines: declarationsIn(program, file) }))
}

function entriesOf(directory: string): { title: string; file: string }[] {
  const manifest = join(root, 'packages', directory, 'package.json')
  if (!existsSync(manifest)) return []
  const { name, private: isPrivate, exports = {} } = JSON.parse(readFileSync(manifest, 'utf8'))
  if (isPrivate) return []
  return Object.entries<{ types?: string }>(exports).flatMap(([entry, { types }]) => {
    if (types === undefined || ['./internal', './wire'].includes(entry)) return []
    return { title: posix.join(name, entry), file: join(dirname(manifest), types) }
  })
}

/** The shipped declarations of the exports of a module, and of the types that they reference, by name. */
function declarationsIn(program: ts.Program, file: string): string[] {
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(file)
  const module = source && checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`${file} is not a module: build first`)
  const exported = new Map(checker.getExportsOfModule(module).map((symbol) => [targetOf(checker, symbol), symbol]))
  // grows during the iteration, because references have references
  const targets = new Set(exported.keys())
  for (const target of targets) for (const found of referencesOf(checker, target, dirname(file))) targets.add(found)
  const symbols = [...targets].map((target) => ({ target, symbol: exported.get(target) ?? target }))
  symbols.sort((a, b) => (a.symbol.name < b.symbol.name ? -1 : 1))
  return symbols.flatMap(({ target, symbol }) => {
    const declarations = (target.declarations ?? []).map(printDeclaration)
    if (declarations.length === 0) throw new Error(`${file} has no declaration of ${symbol.name}`)
    return target.name === symbol.name ? declarations : [`${symbol.name} is`, ...declarations]
  })
}

function targetOf(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

/** The declarations of the same package that a declaration references, such as an interface that it extends. */
function referencesOf(checker: ts.TypeChecker, { declarations = [] }: ts.Symbol, directory: string): ts.Symbol[] {
  const references: ts.Symbol[] = []
  for (const declaration of declarations) visit(statementOf(declaration))
  return references

  function visit(node: ts.Node): void {
    const symbol = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined
    const target = symbol && targetOf(checker, symbol)
    const [found] = target?.declarations ?? []
    if (target && found && isOfModule(found) && found.getSourceFile().fileName.startsWith(directory))
      references.push(target)
    ts.forEachChild(node, visit)
  }
}

function isOfModule(declaration: ts.Declaration): boolean {
  return ts.isSourceFile(statementOf(declaration).parent)
}

/** The statement of a variable, otherwise the declaration. */
function statementOf(declaration: ts.Declaration): ts.Node {
  return ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
}

function printDeclaration(declaration: ts.Declaration): string {
  const node = statementOf(declaration)
  const text = printer.printNode(ts.EmitHint.Unspecified, node, declaration.getSourceFile())
  return text.replace(/^export (declare )?/, '')
}

function commandsOf(command: Command, words: readonly string[] = []): string[] {
  const own = [...words, command.name()]
  if (command.commands.length > 0) return command.commands.flatMap((each) => commandsOf(each, own))
  const args = command.registeredArguments.map((each) => (each.required ? `<${each.name()}>` : `[${each.name()}]`))
  const options = command.options.filter(({ hidden }) => !hidden).map(({ flags }) => flags)
  return [[...own, ...args].join(' '), ...options.map((flags) => `  ${flags}`)]
}

function variablesOf(program: Command): string[] {
  const optionsOf = ({ options, commands }: Command): readonly Option[] => [...options, ...commands.flatMap(optionsOf)]
  const ofOptions = optionsOf(program).flatMap(({ envVar }) => envVar ?? [])
  // secrets have no option
  return [...new Set([...ofOptions, 'INGEST_ADMIN_TOKEN', 'INGEST_KEY'])].sort()
}

async function listRoutes(): Promise<string[]> {
  const ingest = createIngest({ store: openMemoryStore() })
  const response = await toFetchHandler(ingest)(new Request('http://localhost/openapi.json'))
  await ingest.close()
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, { parameters?: Parameter[] }>> }
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { parameters = [] }]) => {
      const names = parameters.filter((each) => each.in === 'query').map(({ name }) => name)
      return `${method.toUpperCase()} ${path}${names.length > 0 ? ` ?${names.join('&')}` : ''}`
    }),
  )
}

interface Parameter {
  in: string
  name: string
}

function listErrors(): string[] {
  const codes = Object.keys(errorTable) as (keyof typeof errorTable)[]
  return codes.sort().map((code) => `${code} ${errorTable[code].status} ${exitCodeOf(code)}`)
}

/** The metrics in docs/metrics.md, which other tests compare with those of servers. */
function listMetrics(): string[] {
  return Array.from(textOf('docs/metrics.md').matchAll(/^\| `(ingest_[^`]+)`/gm), ([, metric = '']) => metric).sort()
}
