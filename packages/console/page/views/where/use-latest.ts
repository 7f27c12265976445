import { useEffect, useRef, useState } from 'preact/hooks'

/**
 * The result for the newest inputs. One load runs at a time; of the loads requested meanwhile, only the newest runs, so
 * that fast changes do not queue. The previous result is kept until then, and after failures.
 */
export function useLatest<Result>(load: () => Promise<Result>, inputs: readonly unknown[]): Result | undefined {
  const [result, setResult] = useState<Result>()
  const queue = useRef<{ isBusy: boolean; next: (() => Promise<Result>) | undefined }>({
    isBusy: false,
    next: undefined,
  })
  useEffect(() => {
    queue.current.next = load
    void run()
  }, inputs)
  useEffect(
    () => () => {
      queue.current.next = undefined
    },
    [],
  )

  async function run(): Promise<void> {
    const state = queue.current
    if (state.isBusy) return
    state.isBusy = true
    while (state.next) {
      const load = state.next
      state.next = undefined
      // the worker has ended with the view
      const result = await load().catch(() => undefined)
      if (result !== undefined) setResult(result)
    }
    state.isBusy = false
  }
  return result
}
