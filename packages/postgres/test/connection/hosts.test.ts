import t from 'tap'
import { parseUrl } from '../../src/connection/hosts.ts'

t.test('a connection URL names one host or several', async (t) => {
  const hostsOf = (list: string) => parseUrl(`postgres://u:secret@${list}/db`).hosts
  const cases: [string, [host: string, port: number][]][] = [
    ['', []],
    ['a', [['a', 5432]]],
    ['a:6000', [['a', 6000]]],
    ['127.0.0.1:6000', [['127.0.0.1', 6000]]],
    ['[::1]', [['::1', 5432]]],
    ['[::1]:6000', [['::1', 6000]]],
    [
      'a,b',
      [
        ['a', 5432],
        ['b', 5432],
      ],
    ],
    [
      'a:1,b,[fe80::1]:65535',
      [
        ['a', 1],
        ['b', 5432],
        ['fe80::1', 65_535],
      ],
    ],
  ]
  for (const [list, expected] of cases) {
    const hosts = expected.map(([host, port]) => ({ host, port }))
    t.strictSame(hostsOf(list), hosts, list)
  }
})

t.test('user, password and database are decoded', async (t) => {
  const cases: [string, object][] = [
    ['postgres://u:p%40%2F%3A%23@h/my%20db', { user: 'u', password: 'p@/:#', database: 'my db' }],
    ['postgresql://u%40corp@a,b/db', { user: 'u@corp', database: 'db' }],
    ['postgres://u:p%2Cq@a:1,b:2/db?target_session_attrs=read-write', { user: 'u', password: 'p,q', database: 'db' }],
    ['postgres://h/db?target_session_attrs=any&application_name=game', { database: 'db', application_name: 'game' }],
  ]
  for (const [url, expected] of cases) {
    const { config } = parseUrl(url)
    t.match(config, expected, url)
    t.notOk('host' in config || 'port' in config || 'target_session_attrs' in config, url)
  }
})

t.test('an invalid URL is refused without its password', async (t) => {
  const urls = [
    '',
    'mysql://u:secret@h/db',
    'postgres:/u:secret@h/db',
    'postgres://u:secret@h:port/db',
    'postgres://u:secret@h:99999/db',
    'postgres://u:secret@a,b:99999/db',
    'postgres://u:secret@a:0,b/db',
    'postgres://u:secret@a,,b/db',
    'postgres://u:secret@a,b:/db',
    'postgres://u:secret@a,b c/db',
    'postgres://u:secret@a,fe80::1/db',
    'postgres://u:secret/word@h/db',
    'postgres://u:secret#word@h/db',
    'postgres://u:secret?word@h/db',
    'postgres://u:secret@h/db?target_session_attrs=standby',
    'postgres://u:secret@h/db?sslrootcert=/secret/missing',
  ]
  for (const url of urls) {
    try {
      parseUrl(url)
      t.fail(`accepted: ${url}`)
    } catch (error) {
      t.match(
        error,
        { name: 'IngestError', code: 'invalid-argument', message: /^The URL of the PostgreSQL database/ },
        url,
      )
      t.notMatch(`${(error as Error).message} ${(error as Error).cause ?? ''}`, /secret/, url)
    }
  }
})
