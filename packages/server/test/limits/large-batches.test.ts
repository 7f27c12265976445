import { createServer } from 'node:http'
import t from 'tap'
import { createHandler } from '../../src/node-handler.ts'
import { requestBytes } from '../edges.ts'
import { listen } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, batchOfBytes, headersOf, openTestIngest, withMethods } from '../test-ingest.ts'

t.test('a turn begins few large batches, and as many small ones as it has requests', async (t) => {
  const { ingest, key } = await openTestIngest()
  let ofTurn = 0
  let ofTurnMax = 0
  const endTurn = () => {
    ofTurn = 0
  }
  const counted = withMethods(ingest, ({ submitBatch }) => ({
    submitBatch(...args) {
      if (ofTurn++ === 0) setImmediate(endTurn)
      ofTurnMax = Math.max(ofTurnMax, ofTurn)
      return submitBatch(...args)
    },
  }))
  const port = await listen(t, createServer(createHandler(counted)))
  const raws = await Promise.all(Array.from({ length: 60 }, () => openRaw(port)))
  const headers = headersOf(key)
  /** The maximum number of batches in a turn. */
  async function sendAll(bodyOf: (i: number) => string): Promise<number> {
    ofTurnMax = 0
    const bodies = raws.map((_, i) => requestBytes({ headers, body: bodyOf(i) }))
    // all but the last byte, which lets all batches begin at once
    for (const [i, raw] of raws.entries()) raw.write((bodies[i] as Buffer).subarray(0, -1))
    await new Promise((resolve) => setTimeout(resolve, 500))
    for (const [i, raw] of raws.entries()) raw.write((bodies[i] as Buffer).subarray(-1))
    for (const raw of raws) t.equal((await raw.read()).status, 202)
    return ofTurnMax
  }
  const large = await sendAll((i) => batchOfBytes(200_000, `large-${i}`))
  // two take the budget of a turn, which starts again between two phases of the event loop
  t.ok(large <= 4, `${large} of 200 kB`)
  const small = await sendAll((i) => batchOf(1, `small-${i}-`))
  t.ok(small > 10, `${small} of one event`)
  for (const { socket } of raws) socket.destroy()
})
