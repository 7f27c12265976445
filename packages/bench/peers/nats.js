import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveCalls } from '@ingest/bench/serve-calls'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { portOf, servePeer } from './serve-peer.js'

// Fastify and NATS JetStream: a message for each event, whose id is its Nats-Msg-Id. By default, NATS syncs the files of
// the stream every two minutes: power loss loses messages that it acknowledged since. By default, it recognizes ids for
// two minutes.
const attempts = 100
/** As long as the load waits for a response. With the default of 5 s, a busy machine would fail a run. */
const ackMsMax = 30_000
/** @type {import('node:child_process').ChildProcess} */
let server
/** @type {import('@nats-io/transport-node').NatsConnection} */
let nats
/** @type {import('fastify').FastifyInstance} */
let app

serveCalls({
  async start({ directory }) {
    mkdirSync(directory, { recursive: true })
    const port = await freePort()
    const config = join(directory, 'nats.conf')
    writeFileSync(config, `listen: "127.0.0.1:${port}"\njetstream { store_dir: ${JSON.stringify(directory)} }\n`)
    // the shell ends NATS at the end of its input, even after a `kill -9` of this process
    const script = 'nats-server --config "$0" & read -r _; kill -9 $!'
    server = spawn('sh', ['-c', script, config], { stdio: ['pipe', 'ignore', 'ignore'] })
    nats = await connectTo(port)
    const manager = await jetstreamManager(nats)
    await manager.streams.add({ name: 'events', subjects: ['events.>'] })
    const stream = jetstream(nats)
    app = await servePeer(async (project, events) => {
      const acks = await Promise.all(
        events.map((event) => {
          const options = { msgID: `${project}/${event.eventId}`, timeout: ackMsMax }
          return stream.publish(`events.${project}`, JSON.stringify(event), options)
        }),
      )
      return acks.filter(({ duplicate }) => !duplicate).length
    })
    return { port: portOf(app), database: server.pid }
  },

  async stop() {
    await app?.close()
    await nats?.drain()
    server?.stdin?.end()
  },
})

async function freePort() {
  const probe = createServer()
  await once(probe.listen(0, '127.0.0.1'), 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address())
  probe.close()
  return port
}

/** @param {number} port */
async function connectTo(port) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await connect({ servers: `127.0.0.1:${port}` })
    } catch (error) {
      if (attempt === attempts) throw error
      await sleep(50)
    }
  }
}
