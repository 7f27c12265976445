import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const program = fileURLToPath(new URL('../src/attack.js', import.meta.url))

/** Without what tap puts into every child. */
function attack(...args: string[]) {
  return promisify(execFile)('env', ['-u', 'NODE_OPTIONS', process.execPath, program, ...args])
}

t.test('a short run attacks the built server, and prints a line for each attack', async (t) => {
  const { stdout } = await attack('json', '--rounds', '1', '--seconds', '1')
  const rows = stdout.trim().split('\n')
  t.match(rows[0], /^\| json \| events\/s \| share \| batch p50 ms \|/)
  t.match(rows[2], /^\| no attack \| [1-9][\d,.]* \| 100 % \|/)
  t.match(rows[3], /^\| 8 senders of 261 KB of keys \|/)
})

t.test('an unknown attack is refused by name', async (t) => {
  for (const args of [['naps'], ['--rounds', 'many'], ['--rounds', '0']]) {
    await t.rejects(attack(...args), { code: 1, stderr: /no figures: / })
  }
})

t.test('--help lists the attacks', async (t) => {
  t.match((await attack('--help')).stdout, /pnpm attack \[pipelining\|verification\|readers\|json\|uploads\|lookups\]/)
})
