import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

/** The directory of the whole repository; tests run in a compiled copy of it. */
export const root = execFileSync('git', ['rev-parse', '--show-toplevel'], {
  cwd: fileURLToPath(new URL('.', import.meta.url)),
  encoding: 'utf8',
}).trim()

/** Every file that is tracked or would be, as a path from the root with forward slashes. */
export const files: readonly string[] = execFileSync(
  'git',
  ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
  { cwd: root, encoding: 'utf8' },
)
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)))
  .sort()

export function textOf(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}

/** The `package.json` of a workspace member; '.' is the root. */
export interface Manifest {
  directory: string
  name: string
  dependencies: readonly string[]
  devDependencies: readonly string[]
}

export const manifests: readonly Manifest[] = files
  .filter((file) => posix.basename(file) === 'package.json')
  .map((file) => {
    const { name, dependencies = {}, devDependencies = {} } = JSON.parse(textOf(file))
    return {
      directory: posix.dirname(file),
      name,
      dependencies: Object.keys(dependencies),
      devDependencies: Object.keys(devDependencies),
    }
  })
  // the manifest of a package for Unity has the same name
  .filter(({ name }) => !name.startsWith('com.'))

/** One import, re-export, `import()` or `import('…')` type of a file. */
export interface Import {
  from: string
  specifier: string
  /** Whether it is gone at run time. */
  isType: boolean
}

export const codeFiles: readonly string[] = files.filter((file) => /\.[cm]?[jt]sx?$/.test(file))

export const imports: readonly Import[] = codeFiles.flatMap((from) =>
  importsIn(textOf(from), from).map((found) => ({ from, ...found })),
)

function importsIn(text: string, file: string): Omit<Import, 'from'>[] {
  const found: Omit<Import, 'from'>[] = []
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest))
  return found

  function visit(node: ts.Node): void {
    if ((ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) && node.moduleSpecifier) {
      add(node.moduleSpecifier, isTypeOnly(node))
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false)
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, true)
    }
    ts.forEachChild(node, visit)
  }

  function add(specifier: ts.Node | undefined, isType: boolean): void {
    if (specifier && ts.isStringLiteralLike(specifier)) found.push({ specifier: specifier.text, isType })
  }
}

function isTypeOnly(node: ts.ImportDeclaration | ts.ExportDeclaration): boolean {
  if (ts.isExportDeclaration(node)) return node.isTypeOnly
  const clause = node.importClause
  if (!clause || clause.isTypeOnly) return clause !== undefined
  const names = clause.namedBindings
  return !clause.name && names !== undefined && ts.isNamedImports(names) && names.elements.every((e) => e.isTypeOnly)
}

/** The file that a relative import leads to. */
export function targetOf({ from, specifier }: Import): string {
  return posix.join(posix.dirname(from), specifier)
}

/** The package that an import names; undefined for a file or a part of Node. */
export function packageOf({ specifier }: Import): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('node:')) return undefined
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}
