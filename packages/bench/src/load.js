import { answerCalls } from './answer-calls.js'
import { sendLoad } from './send-load.js'

// The load as a process of its own.
answerCalls({ start: () => {}, send: sendLoad })
