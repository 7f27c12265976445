import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  durableStoreChecks,
  ingestChecks,
  restoreChecks,
  sharedStoreChecks,
  shareStore,
  storeChecks,
} from '@ingest/checks'
import { createIngest, type Store } from '@ingest/core'
import t from 'tap'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
// the store needs features that node:sqlite has since this version
const isSupported = major > 22 || (major === 22 && minor >= 16)
const sqliteOptions = isSupported ? {} : { skip: 'node:sqlite needs Node 22.16; .ci/run tests it on Node 24' }

t.test('the SQLite store of the examples keeps the contract', sqliteOptions, async (t) => {
  const { openSqliteStore } = await import('../sqlite-store.js')
  const directory = t.testdir()
  const paths = new Map<Store, string>()
  const openAt = (path: string) => {
    const store = openSqliteStore(path)
    paths.set(store, path)
    return store
  }
  const pathOf = (store: Store) => paths.get(store) as string
  const open = () => openAt(join(directory, `${paths.size}.db`))
  const openAgain = (store: Store) => openAt(pathOf(store))

  await t.test('with one handle', async (t) => {
    const shared = shareStore(open)
    for (const { name, isolated, run } of storeChecks) await t.test(name, () => run(isolated ? open : shared.open))
    await shared.close()
  })

  await t.test('with several handles', async (t) => {
    const shared = shareStore(open, openAgain)
    for (const { name, isolated, run } of sharedStoreChecks) {
      await t.test(name, () => (isolated ? run(open, openAgain) : run(shared.open, shared.openAgain)))
    }
    await shared.close()
  })

  await t.test('when it is opened again, or restored from a copy', async (t) => {
    for (const { name, run } of durableStoreChecks) await t.test(name, () => run(open, openAgain))
    const backUp = async (closed: Store) => {
      const path = pathOf(closed)
      copyFileSync(path, `${path}.copy`)
      return async () => {
        copyFileSync(`${path}.copy`, path)
        return openAt(path)
      }
    }
    for (const { name, run } of restoreChecks) await t.test(name, () => run(open, openAgain, backUp))
  })

  await t.test('below an ingest', async (t) => {
    async function openIngest() {
      const embedded = createIngest({ store: open() })
      return { ingest: embedded.project('p'), close: embedded.close }
    }
    for (const { name, run } of ingestChecks) await t.test(name, () => run(openIngest))
  })
})
