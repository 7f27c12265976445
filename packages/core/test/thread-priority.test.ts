import { spawnSync } from 'node:child_process'
import { getPriority } from 'node:os'
import t from 'tap'

const skip = process.platform === 'linux' ? false : 'only on Linux a thread has a priority of its own'

/** The priorities of an unprivileged process that is started with `niceness` and lowers its priority in steps. */
function prioritiesOf(niceness: number, ...steps: number[]): number[] {
  const program = `
    const { lowerThreadPriority } = await import(${JSON.stringify(new URL('../src/thread-priority.js', import.meta.url).href)})
    const { getPriority } = await import('node:os')
    process.setuid?.(65534)
    const seen = []
    for (const step of ${JSON.stringify(steps)}) seen.push((lowerThreadPriority(step), getPriority()))
    console.log(JSON.stringify(seen))`
  const args = ['-n', String(niceness), process.execPath, '--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync('nice', args, { encoding: 'utf8' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout)
}

t.test('a thread lowers its priority, and never raises it', { skip }, async (t) => {
  const own = getPriority()
  t.strictSame(prioritiesOf(0, own + 3, own + 1, own + 5), [own + 3, own + 3, own + 5])
  t.strictSame(prioritiesOf(7, own + 3), [own + 7], 'a process that was started with a lower one keeps it')
})
