import type { Activity } from '../../api/bodies.ts'

export const outcomes = ['accepted', 'duplicates', 'rejected'] as const
export type Outcome = (typeof outcomes)[number]

export type Minute = Activity['steps'][number]

export function totalOf(outcome: Outcome, minutes: readonly Minute[]): number {
  return minutes.reduce((sum, minute) => sum + minute[outcome], 0)
}
