export { type IngestCheck, ingestChecks, type OpenIngest } from './ingest-checks.ts'
export {
  type DurableStoreCheck,
  durableStoreChecks,
  type OpenStore,
  type ReopenStore,
  type StoreCheck,
  storeChecks,
} from './store-checks.ts'
