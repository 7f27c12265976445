/** No UTF-16 code unit takes more bytes of UTF-8 than this. */
const bytesPerUnitMax = 3

/** Whether `text` is longer than `bytesMax` bytes of UTF-8. */
export function exceedsBytes(text: string, bytesMax: number): boolean {
  if (text.length * bytesPerUnitMax <= bytesMax) return false
  return text.length > bytesMax || Buffer.byteLength(text) > bytesMax
}

/** Whether `text` may name something: no control characters (U+0000 to 001F, U+007F) and no lone surrogates. */
export function isNameText(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit === 0x7f) return false
  }
  return text.isWellFormed()
}
