import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'tsup'
import ts from 'typescript'

/** The compiled copy of the repository, in which tests run as plain JavaScript. */
const outDirectory = '.build'
/** The directories that the copy shares with the repository: installed packages, and the builds that packages import. */
const sharedDirectories = ['node_modules', 'dist', 'sql']
const copied = /^(packages|clients|examples|scripts|site|test)\//
/** tap in one file. In a package of this name, tap leaves it out of the stacks that it prints. */
const bundledTap = join(outDirectory, 'tap/node_modules/@tapjs/tap.mjs')
const domainModule = fileURLToPath(new URL('./tap-domain.js', import.meta.url))

/** @type {ts.CompilerOptions} */
const compilerOptions = {
  module: ts.ModuleKind.ESNext,
  target: ts.ScriptTarget.ES2022,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
  inlineSourceMap: true,
  inlineSources: true,
}

/**
 * Mirrors the workspace below `.build`: TypeScript is compiled file by file, everything else is a link to the original,
 * so that paths relative to a file lead to the same place. Only what changed is written.
 *
 * @returns {Promise<string[]>} the compiled test files, relative to the root
 */
export async function compileTests() {
  await bundleTap()
  const files = trackedFiles().filter((file) => copied.test(file))
  const directories = new Set(files.filter((file) => file.endsWith('package.json')).map((file) => dirname(file)))
  for (const directory of directories) {
    for (const shared of sharedDirectories) link(join(directory, shared))
  }
  /** @type {string[]} */
  const tests = []
  for (const file of files) {
    if (!file.endsWith('.ts')) {
      link(file)
      continue
    }
    const compiled = join(outDirectory, file.replace(/\.ts$/, '.js'))
    compile(file, compiled)
    if (/\/?test\/(?:.*\/)?[^/]+\.test\.ts$/.test(file)) tests.push(compiled)
  }
  return tests
}

/** Tracked files and untracked ones that are not ignored, without deleted ones. */
function trackedFiles() {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  return [...new Set(listed.split('\0'))].filter((file) => file !== '' && existsSync(file)).sort()
}

/**
 * @param {string} file
 * @param {string} compiled
 */
function compile(file, compiled) {
  const { mtime } = statSync(file)
  // a restored file may be older than the compiled version of its successor
  if (existsSync(compiled) && statSync(compiled).mtime.getTime() === mtime.getTime()) return
  const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
    compilerOptions,
    fileName: relative(dirname(compiled), file).split(sep).join('/'),
  })
  const tap = relative(dirname(compiled), bundledTap).split(sep).join('/')
  mkdirSync(dirname(compiled), { recursive: true })
  writeFileSync(compiled, outputText.replace(/^(import t\b.* from )'tap';$/m, `$1'${tap}';`))
  utimesSync(compiled, mtime, mtime)
}

/** Bundles tap, whose 250 modules and React take longer to load in every process than most tests run. */
async function bundleTap() {
  const sources = ['pnpm-lock.yaml', fileURLToPath(import.meta.url), domainModule]
  if (existsSync(bundledTap) && sources.every((path) => statSync(bundledTap).mtime > statSync(path).mtime)) return
  const entry = import.meta.resolve('tap')
  await build({
    config: false,
    entry: { tap: fileURLToPath(entry) },
    outDir: dirname(bundledTap),
    outExtension: () => ({ js: '.mjs' }),
    format: 'esm',
    target: 'node20',
    noExternal: [/./],
    silent: true,
    clean: false,
    // for files of its packages that tap reads at run time, and for modules of Node.js that CommonJS modules require
    define: { 'import.meta.url': JSON.stringify(entry) },
    banner: {
      js: `import { createRequire as requireFrom } from 'node:module'\nconst require = requireFrom('${entry}')`,
    },
    esbuildPlugins: [replacements],
    // names stay, as they are in stacks
    esbuildOptions(options) {
      options.minifyWhitespace = true
      options.minifySyntax = true
    },
  })
}

/** @type {NonNullable<import('tsup').Options['esbuildPlugins']>[number]} */
const replacements = {
  name: 'without React and asynchronous hooks',
  setup({ onLoad }) {
    onLoad({ filter: /react-element-to-jsx-string\.js$/ }, () => ({ contents: 'export default String' }))
    onLoad({ filter: /async-hook-domain\/.*\/index\.js$/ }, () => ({ contents: readFileSync(domainModule, 'utf8') }))
  },
}

/** @param {string} path */
function link(path) {
  const copy = join(outDirectory, path)
  if (!existsSync(path) || existsSync(copy)) return
  rmSync(copy, { force: true })
  mkdirSync(dirname(copy), { recursive: true })
  const target = relative(dirname(copy), path)
  symlinkSync(
    lstatSync(path).isDirectory() && process.platform === 'win32' ? join(process.cwd(), path) : target,
    copy,
    'junction',
  )
}
