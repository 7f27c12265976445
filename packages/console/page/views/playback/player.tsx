import { useEffect, useRef } from 'preact/hooks'
import { formatTimeMs } from '../../format.ts'
import { Time } from '../../parts/time.tsx'

/** Seconds of the game per second of playback. */
const speeds = [1, 2, 5, 10, 30, 60, 300, 1_800] as const
/** The initial speed is chosen so that the whole playback takes at most this long. */
const wholeMs = 60_000

/** The slowest speed at which the whole playback takes at most a minute. */
export function speedFor(durationMs: number): number {
  return speeds.find((speed) => durationMs / speed <= wholeMs) ?? speeds[speeds.length - 1] ?? 1
}

/** Whether the user prefers reduced motion: the playback then steps from event to event, once a second. */
export const prefersReducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches

const reducedStepMs = 1_000

/** While it runs, calls back on each frame with the milliseconds since the last. */
export function useClock(isRunning: boolean, onTick: (ms: number) => void): void {
  const latest = useRef(onTick)
  latest.current = onTick
  useEffect(() => {
    if (!isRunning) return
    const schedule = prefersReducedMotion()
      ? (run: () => void) => setTimeout(run, reducedStepMs)
      : (run: () => void) => requestAnimationFrame(run)
    let isOver = false
    let last = performance.now()
    function tick(): void {
      if (isOver) return
      const now = performance.now()
      latest.current(now - last)
      last = now
      schedule(tick)
    }
    schedule(tick)
    return () => {
      isOver = true
    }
  }, [isRunning])
}

interface PlayerProps {
  from: number
  to: number
  at: number
  isPlaying: boolean
  speed: number
  onPlay(isPlaying: boolean): void
  onSpeed(speed: number): void
  onMove(at: number): void
  /** Moves to the previous or the next event. */
  onStep(direction: -1 | 1): void
}

/** The controls of a playback: buttons, speed and time. */
export function Player({ from, to, at, isPlaying, speed, onPlay, onSpeed, onMove, onStep }: PlayerProps) {
  return (
    <fieldset class="play-controls">
      <legend class="muted">Playback</legend>
      <div class="line">
        <button type="button" class="primary" onClick={() => onPlay(!isPlaying)}>
          {isPlaying ? 'Pause' : 'Play'}
        </button>
        <button type="button" aria-label="Previous event" title="Previous event" onClick={() => onStep(-1)}>
          ‹
        </button>
        <button type="button" aria-label="Next event" title="Next event" onClick={() => onStep(1)}>
          ›
        </button>
        <label class="line">
          Speed
          <select value={speed} onChange={({ currentTarget }) => onSpeed(Number(currentTarget.value))}>
            {speeds.map((speed) => (
              <option key={speed} value={speed}>
                {speed}×
              </option>
            ))}
          </select>
        </label>
        <Time at={at} format={formatTimeMs} />
      </div>
      <input
        type="range"
        aria-label="Time"
        aria-valuetext={formatTimeMs(at)}
        min={from}
        max={to}
        step="any"
        value={at}
        disabled={to === from}
        onInput={({ currentTarget }) => onMove(Math.round(Number(currentTarget.value)))}
      />
      {prefersReducedMotion() && (
        <p class="hint">
          With reduced motion, Play jumps to a later event once a second and cuts pauses short. The list has their real
          length.
        </p>
      )}
    </fieldset>
  )
}
