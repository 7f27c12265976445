/** `1 event`, `2 events`: a number of things for people. */
export function formatCount(count: number, thing: string): string {
  return `${count} ${count === 1 ? thing : `${thing}s`}`
}
