import { execFile } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { listPublished } from '../../scripts/published.js'
import { files, root } from '../repository.ts'

t.setTimeout(120_000)

t.test('a release moves the summaries of its changesets to the changelog', async (t) => {
  const directory = t.testdir({ '.changeset': {} })
  const needed = /(^|\/)package\.json$|^scripts\/|^\.changeset\/config|^pnpm-workspace\.yaml$|^CHANGELOG\.md$/
  for (const file of files.filter((file) => needed.test(file))) cpSync(join(root, file), join(directory, file))
  const changelog = () => readFileSync(join(directory, 'CHANGELOG.md'), 'utf8')
  const before = changelog()
  const [{ name = '', version = '' } = {}] = listPublished()
  const [patched, next] = [version.replace(/\d+$/, (patch: string) => `${Number(patch) + 1}`), nextMinor(version)]

  async function run(script: string): Promise<string> {
    const { NODE_OPTIONS: _, ...env } = process.env
    return (await promisify(execFile)(process.execPath, [join('scripts', script)], { cwd: directory, env })).stdout
  }
  function change(file: string, bump: string, summary: string): void {
    writeFileSync(join(directory, '.changeset', file), `---\n"${name}": ${bump}\n---\n\n${summary}\n`)
  }

  change('a.md', 'patch', 'A fault is mended.')
  await run('version.js')
  t.equal(changelog(), before.replace(/\n*(?=\n## |$)/, `\n\n## ${patched}\n\n- A fault is mended.\n`))
  t.strictSame(readdirSync(join(directory, '.changeset')), ['config.json'])
  for (const { directory: folder } of listPublished()) {
    const manifest = JSON.parse(readFileSync(join(directory, 'packages', folder, 'package.json'), 'utf8'))
    t.equal(manifest.version, patched, folder)
  }

  change('a.md', 'patch', 'Another fault is mended.')
  change('b.md', 'minor', 'A function is new.\n\nIt has\ntwo paragraphs.')
  await run('version.js')
  const notes = '- A function is new.\n\n  It has\n  two paragraphs.\n- Another fault is mended.\n'
  t.match(changelog(), `\n\n## ${next}\n\n${notes}\n## ${patched}\n\n- A fault is mended.\n`)
  t.equal(await run('release-notes.js'), notes)

  const after = changelog()
  await run('version.js')
  t.equal(changelog(), after, 'without a changeset, nothing changes')

  writeFileSync(join(directory, '.changeset/c.md'), `---\n"${name}": minor\n---\n`)
  await t.rejects(run('version.js'), /c\.md has no summary/)
  t.equal(await run('release-notes.js'), notes)
})

function nextMinor(version: string): string {
  const [major, minor] = version.split('.')
  return `${major}.${Number(minor) + 1}.0`
}
