export { type IngestCheck, ingestChecks, type OpenIngest } from './ingest-checks.ts'
export {
  type BackUpStore,
  type DurableStoreCheck,
  durableStoreChecks,
  type OpenStore,
  type ReopenStore,
  type RestoreCheck,
  restoreChecks,
  type StoreCheck,
  storeChecks,
} from './store-checks.ts'
