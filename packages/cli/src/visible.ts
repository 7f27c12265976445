/**
 * Text in which nothing moves the cursor, changes its colour, or turns the direction of writing: such characters are
 * written as JSON writes them, so that inside a string of JSON they mean the same.
 */
export function visible(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, (character) =>
    // each half of what is beyond U+FFFF by itself
    Array.from({ length: character.length }, (_, i) => {
      return `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`
    }).join(''),
  )
}
