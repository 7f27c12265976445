import { Argument, Command, Option } from 'commander'
import t from 'tap'
import { completeWords } from '../../src/commands/completion.ts'

const program = new Command('ingest').option('-v, --version', 'say which')
const publish = new Command('publish-map')
  .description('publish a map')
  .argument('<file>')
  .addArgument(new Argument('[how]', '').choices(['well', 'fast']))
  .addOption(new Option('--on-frozen <what>', 'what then').choices(['fail', 'warn']))
  .option('--place <id>', 'where')
  .option('-j, --json', 'an object')
  .addOption(new Option('--secret').hideHelp())
const maps = new Command('maps').description('look at maps')
maps.command('list').description('all of them').alias('ls').option('--json', 'lines')
maps.command('show').option('--on-frozen <what>', 'something else')
program.addCommand(publish).addCommand(maps).addCommand(new Command('hidden'), { hidden: true })

const valuesOf = (...words: string[]) => completeWords(program, words).map(({ value }) => value)

t.test('commands are suggested, and their commands', async (t) => {
  t.strictSame(completeWords(program, ['m']), [{ value: 'maps', description: 'look at maps' }])
  t.strictSame(valuesOf(''), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf(), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf('maps', ''), ['list', 'show', 'help'])
  t.strictSame(valuesOf('maps', 'l'), ['list'])
  t.strictSame(valuesOf('help', ''), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf('help', 'maps', 's'), ['show'])
  t.strictSame(valuesOf('x'), [])
  t.strictSame(valuesOf('x', ''), [])
})

t.test('options of the command are suggested that are no secret', async (t) => {
  t.strictSame(completeWords(program, ['publish-map', '--j']), [{ value: '--json', description: 'an object' }])
  t.strictSame(valuesOf('publish-map', '-'), ['--on-frozen', '--place', '--json', '--help'])
  t.strictSame(valuesOf('publish-map', 'map.json', '--'), ['--on-frozen', '--place', '--json', '--help'])
  t.strictSame(valuesOf('maps', 'ls', '-'), ['--json', '--help'])
  t.strictSame(valuesOf('--'), ['--version', '--help'])
})

t.test('choices of an option are suggested, in each way to write it', async (t) => {
  t.strictSame(valuesOf('publish-map', '--on-frozen', ''), ['fail', 'warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen', 'w'), ['warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen='), ['--on-frozen=fail', '--on-frozen=warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen=f'), ['--on-frozen=fail'])
  t.strictSame(valuesOf('publish-map', '--on-frozen', '='), ['fail', 'warn'], 'as bash takes it apart')
  t.strictSame(valuesOf('publish-map', '--on-frozen', '=', 'f'), ['fail'])
  t.strictSame(valuesOf('maps', 'show', '--on-frozen', ''), [], 'the option of another command')
})

t.test('choices of an argument are suggested', async (t) => {
  t.strictSame(valuesOf('publish-map', 'map.json', ''), ['well', 'fast'])
  t.strictSame(valuesOf('publish-map', '--place', 'a', '--json', 'map.json', 'w'), ['well'])
  t.strictSame(valuesOf('publish-map', '--place=a', 'map.json', 'w'), ['well'])
})

t.test('where anything may stand, nothing is suggested', async (t) => {
  t.strictSame(valuesOf('publish-map', ''), [])
  t.strictSame(valuesOf('publish-map', '--place', ''), [])
  t.strictSame(valuesOf('publish-map', '--place='), [])
  t.strictSame(valuesOf('publish-map', 'map.json', 'well', ''), [])
})
