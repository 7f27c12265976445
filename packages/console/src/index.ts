export type { ConsoleHandler, ConsoleRequest, ConsoleResponse } from './create-console.ts'
export { createConsole } from './create-console.ts'
