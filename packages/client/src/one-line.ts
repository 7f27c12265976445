const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/** A copy of a text of JSON in which each line break is a space: it can only stand between tokens. */
export function oneLine(text: Uint8Array): Buffer {
  const line = Buffer.from(text)
  for (let at = 0; at < line.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  return line
}
