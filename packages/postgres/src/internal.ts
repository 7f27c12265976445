export { openDatabase } from './connection/database.ts'
export { migrations, queries } from './sql.ts'
