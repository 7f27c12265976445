/** Saves bytes as a file. */
export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // revoked later, because the browser may still read it
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
