import Fastify from 'fastify'

/**
 * The HTTP side of every peer: Fastify parses the body and responds with the number of new events that `insert` returns.
 *
 * @param {(projectId: string, events: { eventId: string }[]) => number | Promise<number>} insert resolves when the events
 *   are durable
 * @returns {Promise<import('fastify').FastifyInstance>}
 */
export async function servePeer(insert) {
  const app = Fastify({ bodyLimit: 2 ** 20 })
  app.post('/v1/events/batch', async (request, reply) => {
    const { events } = /** @type {{ events: { projectId: string, eventId: string }[] }} */ (request.body)
    const accepted = await insert(events[0]?.projectId ?? '', events)
    return reply.code(202).send({ accepted, duplicates: events.length - accepted, rejected: [] })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return app
}

/** @param {import('fastify').FastifyInstance} app */
export function portOf(app) {
  return /** @type {import('node:net').AddressInfo} */ (app.server.address()).port
}
