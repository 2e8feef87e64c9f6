// What happens in a run, as it happens. Events are numbered, so after a break it is gone on behind the last one that came: none is
// missed, and one that comes twice counts once.
import { runs } from '../runs';
import { isOver } from '../words';

export type Item =
  | { kind: 'text' | 'thinking'; n: number; at: string; text: string }
  | { kind: 'call'; n: number; at: string; callId: string; tool: string; input: unknown; result?: Result }
  | { kind: 'toolset'; n: number; at: string; servers: string[]; skills: string[] }
  | { kind: 'bare'; n: number; at: string; reason: string }
  | { kind: 'attempt'; n: number; at: string; attempt: number; reason?: string }
  | { kind: 'error'; n: number; at: string; code: string; message: string };

export interface Result {
  /** The number of its event, by which the call is asked for. */
  n: number;
  at: string;
  output: unknown;
  isError: boolean;
}

export interface Step {
  n: number;
  at: string;
  attempt: number;
  state: string;
  reason?: string;
}

export interface Line {
  stream: string;
  text: string;
}

/** An event as it is sent; which of these it has depends on its name. */
interface Told {
  n: number;
  at: string;
  attempt: number;
  kind: string;
  state: string;
  reason?: string;
  text: string;
  callId: string;
  tool: string;
  input: unknown;
  output: unknown;
  isError: boolean;
  servers: string[];
  skills: string[];
  level: string;
  message: string;
  inputTokens: number;
  outputTokens: number;
  error: { code: string; message: string };
}

const NAMES = [
  'state',
  'agent_toolset_applied',
  'toolset_not_applied',
  'log',
  'text',
  'thinking',
  'tool_call',
  'tool_result',
  'usage',
  'final',
  'error',
];
/** What comes within this time is shown at once. */
const SETTLE = 30;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** How a log looks where calls have theirs. */
const STREAMS: Record<string, string> = { warn: 'stderr', error: 'traceback' };

export class Feed {
  items = $state.raw<Item[]>([]);
  steps = $state.raw<Step[]>([]);
  lines = $state.raw<Line[]>([]);
  usage = $state.raw<{ inputTokens: number; outputTokens: number }>();
  /** Whether it can be heard just now. */
  online = $state(true);
  /** Whether everything has come. */
  ended = $state(false);
  #last = 0;
  #came: Told[] = [];
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #flush: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_WAIT;

  constructor(readonly run: string) {}

  /** Listens until what is returned is called. */
  open(): () => void {
    this.#connect();
    // A browser has few connections to a server for all its tabs: a tab that nobody sees takes none.
    const seen = () => (document.hidden ? this.#close() : this.#connect());
    document.addEventListener('visibilitychange', seen);
    return () => {
      document.removeEventListener('visibilitychange', seen);
      this.#close();
    };
  }

  /** Looks once more: something may have been added to a run that was over. */
  again(): void {
    if (!this.ended) return;
    this.ended = false;
    this.#connect();
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  #connect(): void {
    if (this.#source || this.ended || document.hidden) return;
    const source = new EventSource(runs.events(this.run, this.#last));
    this.#source = source;
    source.addEventListener('open', () => {
      this.online = true;
      this.#wait = FIRST_WAIT;
    });
    source.addEventListener('end', () => {
      this.#close();
      this.#take();
      this.ended = true;
    });
    for (const name of NAMES)
      source.addEventListener(name, (event: Event) => {
        // The browser calls it `error` when a connection breaks, as a run does when it has no answer.
        if (event instanceof MessageEvent) this.#hear(event as MessageEvent<string>);
        else if (event.type === 'error') this.#broke();
      });
  }

  #broke(): void {
    // The browser would begin again where this connection began, for the address says so.
    this.#close();
    this.online = false;
    this.#timer = setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  #hear(event: MessageEvent<string>): void {
    const told = JSON.parse(event.data) as Told;
    if (told.n <= this.#last) return;
    this.#last = told.n;
    this.#came.push(told);
    this.#flush ??= setTimeout(() => this.#take(), SETTLE);
  }

  #take(): void {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    const came = this.#came.splice(0);
    if (!came.length) return;
    const items = [...this.items];
    const steps = [...this.steps];
    const lines = [...this.lines];
    for (const told of came) {
      const { n, at } = told;
      switch (told.kind) {
        case 'state': {
          // What was tried before and has to be tried again is not what happens now.
          if (told.state === 'leased' && told.attempt > 1)
            items.push({ kind: 'attempt', n, at, attempt: told.attempt, reason: steps.at(-1)?.reason });
          steps.push({ n, at, attempt: told.attempt, state: told.state, reason: told.reason });
          break;
        }
        case 'agent_toolset_applied':
          items.push({ kind: 'toolset', n, at, servers: told.servers, skills: told.skills });
          break;
        case 'toolset_not_applied':
          items.push({ kind: 'bare', n, at, reason: told.reason ?? '' });
          break;
        case 'log':
          lines.push({ stream: STREAMS[told.level] ?? 'stdout', text: told.message });
          break;
        case 'text':
        case 'thinking':
          items.push({ kind: told.kind, n, at, text: told.text });
          break;
        case 'tool_call':
          items.push({ kind: 'call', n, at, callId: told.callId, tool: told.tool, input: told.input });
          break;
        case 'tool_result': {
          const result = { n, at, output: told.output, isError: told.isError };
          const place = items.findLastIndex(
            (item) => item.kind === 'call' && item.callId === told.callId && !item.result,
          );
          const call = items[place];
          if (call?.kind === 'call') items[place] = { ...call, result };
          else items.push({ kind: 'call', n, at, callId: told.callId, tool: '', input: undefined, result });
          break;
        }
        case 'usage':
          this.usage = { inputTokens: told.inputTokens, outputTokens: told.outputTokens };
          break;
        case 'error':
          items.push({ kind: 'error', n, at, ...told.error });
          break;
      }
    }
    [this.items, this.steps, this.lines] = [items, steps, lines];
  }
}

/** Those that are not over when the run is. */
export function isLost(item: Item, state: string): boolean {
  return item.kind === 'call' && !item.result && isOver(state);
}
