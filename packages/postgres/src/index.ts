export {
  type DurabilityReport,
  openPostgresStore,
  type PostgresStoreOptions,
} from './open-postgres-store.ts'
export { type MigrateOptions, migratePostgres, printMigrations } from './schema/migrate.ts'
