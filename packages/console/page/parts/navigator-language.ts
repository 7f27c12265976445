// Chromium gives the language of the locale C as `en-US@posix`, which Intl refuses: uPlot, which passes it on when it is
// loaded, would stop the whole page.
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US' })
}
