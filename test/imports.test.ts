import { posix } from 'node:path'
import t from 'tap'
import { files, type Import, imports, type Manifest, manifests, packageOf, targetOf } from './repository.ts'

/** What each package may import of the others: arrows point down only. */
const below: Record<string, string[]> = {
  '@ingest/bench': [
    '@ingest/cli',
    '@ingest/client',
    '@ingest/server',
    '@ingest/lmdb',
    '@ingest/postgres',
    '@ingest/core',
    '@ingest/export',
  ],
  '@ingest/bench-peers': ['@ingest/bench'],
  '@ingest/cli': [
    '@ingest/checks',
    '@ingest/client',
    '@ingest/console',
    '@ingest/export',
    '@ingest/server',
    '@ingest/lmdb',
    '@ingest/postgres',
    '@ingest/core',
  ],
  '@ingest/checks': ['@ingest/core'],
  '@ingest/client': ['@ingest/core'],
  // the tests of senders in other languages
  '@ingest/clients': ['@ingest/checks', '@ingest/cli', '@ingest/core', '@ingest/lmdb', '@ingest/server'],
  // its tests run a server
  '@ingest/console': [],
  '@ingest/core': [],
  '@ingest/examples': [
    '@ingest/checks',
    '@ingest/client',
    '@ingest/export',
    '@ingest/server',
    '@ingest/lmdb',
    '@ingest/postgres',
    '@ingest/core',
  ],
  '@ingest/export': ['@ingest/core'],
  '@ingest/lmdb': ['@ingest/core'],
  '@ingest/postgres': ['@ingest/core'],
  '@ingest/server': ['@ingest/core'],
  '@ingest/site': [],
  '@ingest/soak': ['@ingest/bench', '@ingest/cli', '@ingest/client', '@ingest/lmdb', '@ingest/core', '@ingest/export'],
}

/**
 * The folders of each package, and the files beside them, from the bottom up. A file imports from its own folder and
 * from lower rows.
 */
const floors: Record<string, string[][]> = {
  'packages/core/src': [
    ['error.ts'],
    ['validation.ts', 'operations.ts', 'read-steps.ts', 'thread-priority.ts', 'files'],
    ['json', 'schemas'],
    ['store-types.ts'],
    ['store.ts'],
    ['projects'],
    ['events', 'maps'],
    ['submit', 'read'],
    ['consumers', 'activity'],
    ['cancellable-store.ts', 'sweep.ts'],
    ['project-stats.ts'],
    ['ingest.ts', 'memory', 'copy'],
    ['retention.ts', 'internal.ts', 'wire.ts'],
    ['index.ts'],
  ],
  'packages/lmdb/src': [
    ['environment'],
    ['threads'],
    ['log'],
    ['ids', 'entries', 'activity', 'chunks'],
    ['maps'],
    ['writer'],
    ['events'],
    ['backup'],
    ['open-lmdb-store.ts'],
    ['repair'],
    ['index.ts', 'internal.ts'],
  ],
  'packages/postgres/src': [
    ['sql.ts'],
    ['connection'],
    ['schema', 'projects'],
    ['activity', 'events', 'maps', 'servers.ts'],
    ['measure.ts', 'sweep.ts'],
    ['open-postgres-store.ts'],
    ['index.ts'],
  ],
  'packages/server/src': [
    ['http', 'log.ts'],
    ['metrics'],
    ['requests'],
    ['limits'],
    ['router.ts'],
    ['authenticate.ts', 'uploads'],
    ['routes'],
    ['openapi', 'run-route.ts'],
    ['public-router.ts'],
    ['node-handler.ts', 'fetch-handler.ts'],
    ['listener'],
    ['admin'],
    ['serve.ts'],
    ['index.ts'],
  ],
  'packages/console/src': [['page-files.ts'], ['create-console.ts'], ['index.ts']],
  'packages/console/page': [
    ['time-zone.ts'],
    [
      'format.ts',
      'address.ts',
      'event-filter.ts',
      'json-text.ts',
      'json-pointer.ts',
      'shell-quote.ts',
      'app.css',
      'icon.svg',
      'index.html',
      'tsconfig.json',
      'visible-text.ts',
    ],
    ['range.ts', 'api', 'heat'],
    ['worker'],
    ['parts'],
    ['views'],
    ['signed-in.tsx'],
    ['app.tsx'],
    ['main.tsx'],
  ],
  'packages/client/src': [['http'], ['batch', 'upload'], ['calls', 'import'], ['client.ts'], ['sender'], ['index.ts']],
  'packages/export/src': [
    ['cut-events.ts', 'file-format.ts', 'hive-partition.ts'],
    ['cursor-file.ts'],
    ['export-directory.ts', 'ndjson.ts', 'parquet.ts'],
    ['export-files.ts'],
    ['index.ts'],
  ],
  'packages/cli/src': [
    ['io.ts', 'options.ts', 'version.ts', 'exit-code.ts'],
    ['store.ts', 'terminal'],
    ['files'],
    ['connect.ts'],
    ['serve'],
    ['commands'],
    ['program.ts'],
    ['run.ts'],
    ['bin.ts'],
  ],
}

/** Where alone the sources may import what everything else is to be independent of. */
const confined: Record<string, RegExp> = {
  '@opentelemetry/api': /^packages\/server\/src\/requests\//,
  commander: /^packages\/cli\/src\//,
  lmdb: /^packages\/lmdb\/src\//,
  pg: /^packages\/(postgres|soak)\/src\//,
  'prom-client': /^packages\/server\/src\/metrics\//,
  undici: /^packages\/client\/src\//,
}

const rootManifest = manifests.find(({ directory }) => directory === '.') as Manifest
const isSource = ({ from }: Import) => /^packages\/[^/]+\/(src|bin)\//.test(from)
const lineOf = ({ from, specifier }: Import) => `${from} imports ${specifier}`

function ownerOf({ from }: Import): Manifest {
  // a package may stand inside another one, as the benchmark's peers do
  const owners = manifests.filter(({ directory }) => from.startsWith(`${directory}/`))
  return owners.sort((a, b) => b.directory.length - a.directory.length)[0] ?? rootManifest
}

t.test('every import of a package is declared where it is used', async (t) => {
  const undeclared = imports.filter((each) => {
    const name = packageOf(each)
    const owner = ownerOf(each)
    if (name === undefined || name === owner.name) return false
    const lasting = isSource(each) || (owner.directory === 'examples' && !each.from.includes('/test/'))
    const declared = lasting ? owner.dependencies : [owner, rootManifest].flatMap(allDependencies)
    return !declared.includes(name)
  })
  t.strictSame(undeclared.map(lineOf), [])
})

t.test('every declared dependency is imported', async (t) => {
  const unused = manifests.flatMap((manifest) => {
    const used = new Set(imports.filter((each) => ownerOf(each) === manifest).map(packageOf))
    // declarations may name the types of a package that has none of its own
    const isUsed = (name: string) => used.has(name.replace('@types/', ''))
    return manifest.dependencies.filter((name) => !isUsed(name)).map((name) => `${manifest.name} declares ${name}`)
  })
  t.strictSame(unused, [])
})

t.test('packages import only lower packages', async (t) => {
  const siblings = manifests.filter(({ directory }) => directory !== '.')
  t.strictSame(
    siblings.map(({ name }) => name).filter((name) => !Object.hasOwn(below, name)),
    [],
    'a new package needs a place in the table above',
  )
  const upward = siblings.flatMap(({ name, dependencies }) =>
    dependencies
      .filter((other) => other.startsWith('@ingest/') && !below[name]?.includes(other))
      .map((other) => `${name} depends on ${other}`),
  )
  t.strictSame(upward, [])
})

t.test('within a package, arrows point down', async (t) => {
  for (const [source, rows] of Object.entries(floors)) {
    const unitOf = (file: string) => posix.relative(source, file).split('/')[0] as string
    const rowOf = (file: string) => rows.findIndex((row) => row.includes(unitOf(file)))
    const own = files.filter((file) => file.startsWith(`${source}/`))
    t.strictSame(
      own.filter((file) => rowOf(file) === -1),
      [],
      'a new folder needs a row in the table above',
    )
    const upward = imports.filter((each) => {
      if (!each.from.startsWith(`${source}/`) || !each.specifier.startsWith('.')) return false
      const target = targetOf(each)
      return unitOf(each.from) !== unitOf(target) && rowOf(target) >= rowOf(each.from)
    })
    t.strictSame(upward.map(lineOf), [], source)
  }
})

t.test('an export of NDJSON loads no Parquet code', async (t) => {
  const reached = new Set(['packages/export/src/index.ts'])
  for (const file of reached) {
    for (const each of imports.filter(({ from, isType }) => from === file && !isType)) {
      t.not(packageOf(each), 'hyparquet-writer', file)
      if (each.specifier.startsWith('.')) reached.add(targetOf(each))
    }
  }
  t.ok(reached.has('packages/export/src/ndjson.ts'))
})

/** What the tests of several packages need. */
const sharedByTests = [
  'packages/checks/src/store/sample-events.ts',
  'packages/console/scripts/chromium.js',
  'packages/core/test/copy/filled-store.ts',
  'packages/postgres/test/database.ts',
  'packages/postgres/test/postgres-server.ts',
  'packages/server/test/certificates.ts',
  'packages/soak/src/faults/preload-library.js',
  'scripts/compile-tests.js',
]

t.test('packages import each other by name only, but for what their tests share', async (t) => {
  const across = imports.filter((each) => {
    const { directory } = ownerOf(each)
    if (each.from.includes('/test/') && sharedByTests.includes(targetOf(each))) return false
    return each.specifier.startsWith('.') && directory !== '.' && !targetOf(each).startsWith(`${directory}/`)
  })
  t.strictSame(across.map(lineOf), [])
})

t.test('lmdb, commander and undici are imported in one place each', async (t) => {
  const astray = imports.filter((each) => isSource(each) && confined[packageOf(each) ?? '']?.test(each.from) === false)
  t.strictSame(astray.map(lineOf), [])
})

t.test('only the listener, the requests of the soak and the server of the sender checks run node:http', async (t) => {
  const http = imports.filter((each) => isSource(each) && /^node:https?$/.test(each.specifier) && !each.isType)
  t.strictSame([...new Set(http.map(({ from }) => posix.dirname(from)))].sort(), [
    'packages/checks/src/sender',
    'packages/server/src/listener',
    'packages/soak/src/load',
  ])
})

t.test('every relative import names an existing file', async (t) => {
  // the scanner's known fields exist only while assembly/build.js compiles it
  const built = /^packages\/[^/]+\/dist\/|^packages\/core\/assembly\/known-fields\.ts$/
  const missing = imports.filter((each) => {
    return each.specifier.startsWith('.') && !files.includes(targetOf(each)) && !built.test(targetOf(each))
  })
  t.strictSame(missing.map(lineOf), [])
})

t.test('nothing imports in a circle, not even types', async (t) => {
  t.strictSame(
    circles([
      { from: 'a.ts', specifier: './b.ts' },
      { from: 'b.ts', specifier: './a.ts' },
    ]),
    ['a.ts → b.ts → a.ts'],
  )
  t.strictSame(circles(imports), [])
})

function circles(edges: readonly Pick<Import, 'from' | 'specifier'>[]): string[] {
  const targets = new Map<string, string[]>()
  for (const { from, specifier } of edges) {
    if (!specifier.startsWith('.')) continue
    const target = posix.join(posix.dirname(from), specifier)
    targets.set(from, [...(targets.get(from) ?? []), target])
  }
  const found: string[] = []
  const done = new Set<string>()
  const follow = (file: string, path: string[]): void => {
    if (path.includes(file)) found.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file) || path.includes(file)) return
    for (const target of targets.get(file) ?? []) follow(target, [...path, file])
    done.add(file)
  }
  for (const file of targets.keys()) follow(file, [])
  return found
}

function allDependencies({ dependencies, devDependencies }: Manifest): readonly string[] {
  return [...dependencies, ...devDependencies]
}
