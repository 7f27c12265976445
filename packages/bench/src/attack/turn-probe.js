import { monitorEventLoopDelay } from 'node:perf_hooks'

// Loaded into a server: responds to each message with the longest turn of the event loop since the last message.

const resolution = 1
const delay = monitorEventLoopDelay({ resolution })
delay.enable()
process.on('message', () => {
  process.send?.(Math.max(0, delay.max / 1e6 - resolution))
  delay.reset()
})
// the channel must not keep a drained server alive
process.channel?.unref()
