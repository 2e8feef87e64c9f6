// What happens on the server, as it happens. One connection for the whole page; after a break everybody who listens asks anew.
import { Problem } from '../api/problem';
import { session } from './session.svelte';

/** The names of `GET /events`. */
export const NAMES = [
  'chat_changed',
  'tool_call',
  'tool_call_progress',
  'tool_call_log',
  'workspace_changed',
  'tools_changed',
  'toolset_progress',
  'mcp_server',
  'process',
  'members_changed',
  'run_changed',
  'executor_changed',
] as const;
export type EventName = (typeof NAMES)[number];
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type EventData = Record<string, any>;

type Listener = { names: readonly EventName[]; heard: (name: EventName, data: EventData) => void; missed: () => void };

const listeners = new Set<Listener>();
let source: EventSource | undefined;
let online = $state(true);

export const events = {
  /** Whether the server can be heard just now. */
  get online(): boolean {
    return online;
  },

  open(first = true): void {
    source?.close();
    source = new EventSource(`/v1/orgs/${encodeURIComponent(session.org)}/events`);
    source.addEventListener('ready', () => {
      online = true;
      if (!first) missed();
      first = false;
    });
    source.addEventListener('lagged', missed);
    source.addEventListener('error', () => {
      online = false;
      // A browser gives up when the answer is no stream, as it is while a server starts.
      if (source?.readyState === EventSource.CLOSED) setTimeout(again, 2000);
    });
    for (const name of NAMES) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        const data = JSON.parse(event.data) as EventData;
        for (const listener of [...listeners]) if (listener.names.includes(name)) listener.heard(name, data);
      });
    }
  },

  /** Hears these until what is returned is called. `missed` is called when some may have been missed. */
  on(names: readonly EventName[], heard: Listener['heard'], missed: () => void = () => {}): () => void {
    const listener = { names, heard, missed };
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** Who is let in no more learns so from the session, not from a stream that does not open. */
async function again(): Promise<void> {
  try {
    await session.open();
  } catch (error) {
    const problem = Problem.of(error);
    // Whoever signs in again opens it again.
    if (problem.status === 401) return void Problem.answered(problem.status, undefined);
    return void setTimeout(again, 2000);
  }
  if (session.isSomewhere) events.open(false);
}

function missed(): void {
  for (const listener of [...listeners]) listener.missed();
}
