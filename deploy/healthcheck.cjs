// Exits with 0 if the server of this container is ready. It reads the variables of `ingest serve`, not its options.
const { request } = require(process.env.INGEST_TLS_CERT ? 'node:https' : 'node:http')

const { INGEST_LISTEN: listen = '0.0.0.0:8787' } = process.env
const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(listen) ?? []
const loopback = { '0.0.0.0': '127.0.0.1', '::': '::1' }
const address = listen.startsWith('unix:')
  ? { socketPath: listen.slice('unix:'.length) }
  : { host: loopback[host] ?? host, port }
// the certificate has the public name of the server
request({ ...address, path: '/readyz', timeout: 5000, rejectUnauthorized: false }, ({ statusCode }) => {
  process.exit(statusCode === 200 ? 0 : 1)
})
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1))
  .end()
