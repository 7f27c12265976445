import { monitorEventLoopDelay } from 'node:perf_hooks'

// Loaded into a server: responds to each message with its longest turn since the last one.

const resolution = 1
const delay = monitorEventLoopDelay({ resolution })
delay.enable()
process.on('message', () => {
  process.send?.(Math.max(0, delay.max / 1e6 - resolution))
  delay.reset()
})
// a server that drains must be able to end
process.channel?.unref()
