import { type ConformanceOptions, runConformance, senderRules } from './run-conformance.ts'

/** The part of a test, such as one of tap, that {@link expectRules} needs. */
export interface RuleTest {
  equal(found: unknown, wanted: unknown, message: string, extra: object): unknown
  pass(message: string, extra: { skip: string }): unknown
  comment(text: string): unknown
}

/**
 * Expects that the program of a sender keeps all rules except those in `broken`, which maps each to its reason. If it keeps
 * a rule of `broken`, the test fails until that entry is deleted.
 */
export async function expectRules(
  t: RuleTest,
  options: ConformanceOptions,
  broken: Readonly<Record<string, string>> = {},
): Promise<void> {
  const {
    hasSpool = false,
    rules = senderRules.filter(({ needsSpool }) => hasSpool || !needsSpool).map(({ id }) => id),
  } = options
  for (const { id, outcome, expected, seen, note } of await runConformance({
    patienceMs: 120_000,
    ...options,
    rules,
  })) {
    const wanted = Object.hasOwn(broken, id) ? 'failed' : 'passed'
    if (outcome === 'skipped') t.pass(id, { skip: note ?? '' })
    else t.equal(outcome, wanted, `${id}: ${broken[id] ?? expected}`, { seen })
    if (outcome !== 'skipped' && note !== null) t.comment(`${id}: ${note}`)
  }
}
