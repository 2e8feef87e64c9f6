// Something that is asked for, shown, and asked for again when it changed.
import { Problem } from '../api/problem';
import { events, type EventData, type EventName } from './events.svelte';

/** How long further events are waited for before it is asked again. */
const SETTLE = 60;

export class Resource<T> {
  data = $state.raw<T>();
  problem = $state.raw<Problem>();
  loading = $state(true);
  #round = $state(0);

  /** Asks again; what is there stays until the answer comes. */
  refresh = (): void => {
    this.#round += 1;
  };

  /** Shows something before the server said so. */
  set(data: T): void {
    this.data = data;
  }

  get round(): number {
    return this.#round;
  }

  async fill(load: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<void> {
    this.loading = true;
    try {
      const data = await load(signal);
      if (signal.aborted) return;
      this.data = data;
      this.problem = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.problem = Problem.of(error);
    }
    this.loading = false;
  }
}

export interface Live {
  on: readonly EventName[];
  /** Whether such an event concerns it; all do by default. */
  when?: (data: EventData, name: EventName) => boolean;
}

/**
 * Asks now, whenever what `load` reads before its first `await` changes, and whenever one of the events happens. To be called while a
 * component is made.
 */
export function resource<T>(load: (signal: AbortSignal) => Promise<T>, live?: Live): Resource<T> {
  const it = new Resource<T>();
  $effect(() => {
    void it.round;
    const abort = new AbortController();
    void it.fill(load, abort.signal);
    return () => abort.abort();
  });
  $effect(() => {
    if (!live) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(it.refresh, SETTLE);
    };
    const off = events.on(live.on, (name, data) => (live.when?.(data, name) ?? true) && soon(), soon);
    return () => {
      clearTimeout(timer);
      off();
    };
  });
  return it;
}
