// The calls of one chat as they happen: asked for, decided, under way, over.
import { SvelteMap } from 'svelte/reactivity';
import { api, ask, type Schemas } from '../../api/client';
import { events, type EventData } from '../../data/events.svelte';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';

export type Call = Schemas['ToolCall'];
export type LogLine = Schemas['ToolCallLogLine'];
export interface Progress {
  fraction: number | null;
  message: string | null;
}

/** So many lines of what a running call says are shown. */
const MOST_LINES = 500;
/** How a call gets on. */
const ORDER: Call['status'][] = ['pending', 'running', 'success', 'error'];
const NO_WAIT = { Prefer: 'respond-async' } as const;

export class Calls {
  readonly byId = new SvelteMap<string, Call>();
  readonly progress = new SvelteMap<string, Progress>();
  readonly logs = new SvelteMap<string, LogLine[]>();

  constructor(readonly chat: string) {}

  #path(callId: string) {
    return { org: session.org, chat: this.chat, callId };
  }

  /** Hears what happens until what is returned is called; `other` is told of calls that nobody here asked for. */
  listen(other: (call: Call) => void, missed: () => void): () => void {
    return events.on(
      ['tool_call', 'tool_call_progress', 'tool_call_log'],
      (name, data) => {
        if (data.chatId !== this.chat) return;
        if (name === 'tool_call') this.#heard(data as Call, other);
        else if (name === 'tool_call_progress') this.advance(data);
        else this.#said(data);
      },
      missed,
    );
  }

  #heard(call: Call, other: (call: Call) => void): void {
    const known = this.byId.get(call.id);
    // What is over stays over: an answer may overtake an event.
    if (known?.finishedAt && !call.finishedAt) return;
    this.put(call);
    if (call.resultOmitted || call.logsOmitted || call.finishedAt) void this.fetch(call.id);
    if (!known) other(call);
  }

  /** How a call was at some time, as the turn that made it tells it. Whoever comes late hears of times that are past. */
  take(call: Call): void {
    const known = this.byId.get(call.id);
    if (!known || ORDER.indexOf(known.status) <= ORDER.indexOf(call.status)) this.#newer(call);
  }

  /** A call says how far it is. */
  advance(data: EventData): void {
    this.progress.set(data.callId as string, { fraction: data.fraction ?? null, message: data.message ?? null });
  }

  #said(data: EventData): void {
    const lines = data.lines as LogLine[];
    const left: LogLine[] = data.dropped ? [{ stream: 'log', text: `… ${data.dropped} lines were left out` }] : [];
    this.logs.set(
      data.callId as string,
      [...(this.logs.get(data.callId as string) ?? []), ...left, ...lines].slice(-MOST_LINES),
    );
  }

  put(call: Call): void {
    this.byId.set(call.id, call);
  }

  /** All of a call: an event leaves out what is large, a list the address of a page. */
  async fetch(id: string): Promise<void> {
    try {
      this.put(
        await ask(api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}', { params: { path: this.#path(id) } })),
      );
    } catch (error) {
      toasts.problem(error);
    }
  }

  /** Asks for a call; it goes on while we look elsewhere. */
  async run(toolId: string, args: Record<string, unknown>, messageId?: string): Promise<Call> {
    const request = api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls', {
      params: { path: { org: session.org, chat: this.chat }, header: { ...NO_WAIT, 'Idempotency-Key': key() } },
      body: { toolId, args: args as Schemas['CallTool']['args'], messageId },
    });
    return this.#newer(await ask(request));
  }

  async decide(call: Call, approve: boolean, args?: Record<string, unknown>): Promise<void> {
    const request = api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision', {
      params: { path: this.#path(call.id), header: NO_WAIT },
      body: {
        approve,
        digest: call.argsDigest,
        ...(approve && args ? { args: args as Schemas['Decide']['args'] } : {}),
      },
    });
    this.#newer(await ask(request));
  }

  async cancel(call: Call): Promise<void> {
    const request = api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/cancel', {
      params: { path: this.#path(call.id) },
    });
    this.#newer(await ask(request));
  }

  /** An answer that was overtaken by an event says nothing new. */
  #newer(call: Call): Call {
    if (!this.byId.get(call.id)?.finishedAt) this.put(call);
    return call;
  }
}

/** A name for one request, so that it is one call however often the browser sends it. */
function key(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
