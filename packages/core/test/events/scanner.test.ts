import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { compileScanner, outFile } from '../../assembly/build.js'

const run = promisify(execFile)

t.test('the checked-in scanner is its compiled source', async (t) => {
  t.ok((await compileScanner()) === readFileSync(outFile, 'utf8'), 'otherwise: node assembly/build.js')
})

t.test('a batch has the same result without WebAssembly', async (t) => {
  const core = new URL(`../../src/index${extname(import.meta.url)}`, import.meta.url)
  const program = `
    import { createIngest, openMemoryStore } from '${core}'
    const ingest = createIngest({ store: openMemoryStore() }).project('p')
    const events = [{ eventId: 'a' }, { eventId: 'b', type: 5 }, { eventId: 'c' }].map((e) => ({ projectId: 'p', ...e }))
    const submit = (events) => ingest.submitBatch(Buffer.from(JSON.stringify({ events })))
    const results = [await submit([events[0], events[2]]), await submit(events)]
    console.log(JSON.stringify({ isMissing: typeof WebAssembly === 'undefined', results }))
  `
  const submitWith = async (...options: string[]) => {
    const { stdout } = await run(process.execPath, [...options, '--input-type=module', '--eval', program])
    return JSON.parse(stdout)
  }
  const [without, usual] = [await submitWith('--jitless'), await submitWith()]
  t.equal(without.isMissing, true)
  t.equal(usual.isMissing, false)
  t.match(usual.results, [{ accepted: 2 }, { accepted: 0, duplicates: 2, rejected: [{ index: 1 }] }])
  t.strictSame(without.results, usual.results)
})
