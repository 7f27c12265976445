import { spawnSync } from 'node:child_process'
import { getPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const skip = process.platform === 'linux' ? false : 'only on Linux has a thread a priority of its own'
const source = fileURLToPath(new URL('../../src/threads/thread-priority.js', import.meta.url))

/** The priorities of a process that begins with one, as a user who may not raise it, and stands back to others. */
function prioritiesOf(niceness: number, ...steps: number[]): number[] {
  const program = `
    const { lowerThreadPriority } = await import(${JSON.stringify(source)})
    const { getPriority } = await import('node:os')
    process.setuid?.(65534)
    const seen = []
    for (const step of ${JSON.stringify(steps)}) seen.push((lowerThreadPriority(step), getPriority()))
    console.log(JSON.stringify(seen))`
  const args = ['-n', String(niceness), process.execPath, ...process.execArgv, '--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync('nice', args, { encoding: 'utf8' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout)
}

t.test('a thread stands back, and never comes forward again', { skip }, async (t) => {
  const own = getPriority()
  t.strictSame(prioritiesOf(0, own + 3, own + 1, own + 5), [own + 3, own + 3, own + 5])
  t.strictSame(prioritiesOf(7, own + 3), [own + 7], 'a process that was started further back stays there')
})
