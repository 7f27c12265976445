import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { openProjects } from '../../src/tables/projects.ts'

t.test('a project is numbered once, and round-trips', async (t) => {
  const environment = openEnvironment(t.testdir())
  const projects = openProjects(environment.table)
  const one = { projectId: 'one', createdAt: 1, keys: [] }
  t.equal(projects.numberOf('one'), undefined)
  t.equal(projects.get('one'), undefined)
  environment.root.transactionSync(() => {
    t.equal(projects.numberFor('one'), 1)
    t.equal(projects.numberFor('other'), 2)
    t.equal(projects.numberFor('one'), 1)
    projects.put(one)
    projects.put({ ...one, projectId: 'third' })
  })
  environment.root.resetReadTxn()
  t.equal(projects.numberOf('one'), 1)
  t.equal(projects.numberOf('other'), 2)
  t.equal(projects.numberOf('third'), 3)
  t.strictSame(projects.get('one'), one)
  t.equal(projects.get('other'), undefined, 'a project that only has events')
  await environment.root.close()
})

t.test('a number assigned in a failed transaction is assigned again', async (t) => {
  const environment = openEnvironment(t.testdir())
  const projects = openProjects(environment.table)
  t.throws(() =>
    environment.root.transactionSync(() => {
      projects.numberFor('lost')
      throw new Error('no')
    }),
  )
  environment.root.transactionSync(() => {
    t.equal(projects.numberFor('kept'), 1)
  })
  t.equal(projects.numberOf('lost'), undefined)
  await environment.root.close()
})
