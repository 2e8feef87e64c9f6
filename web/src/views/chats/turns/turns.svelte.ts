// The turns of models in one chat: asked for, followed until they are over, ended.
import { api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { sent } from '../../../api/sent';
import { session } from '../../../data/session.svelte';
import type { Conversation } from '../conversation.svelte';
import { headOf } from './blocks';
import { LiveTurn } from './live.svelte';
import { models } from './models.svelte';

/** How long to wait before a turn that got lost is looked for again, at first and at most, in milliseconds. */
const PAUSE = 300;
const LONGEST = 5000;

type Body = ReadableStream<Uint8Array<ArrayBuffer>>;
/** What is answered: something new that a person says, or a message of a person that is there. */
export type Question = { content: string; parentId?: string | null } | { messageId: string };

export class Turns {
  /** The turn that runs. It goes when its message says everything that it did. */
  live = $state.raw<LiveTurn>();
  /** Somebody asks for one just now. */
  asking = $state(false);
  readonly running = $derived(this.live !== undefined || this.asking);
  #closed = new AbortController();
  #looking = false;

  constructor(private readonly conversation: Conversation) {}

  get #path() {
    return { org: session.org, chat: this.conversation.id };
  }

  /** Follows what runs until what is returned is called; the turn itself goes on. */
  open(): () => void {
    this.#closed = new AbortController();
    return () => {
      this.#closed.abort();
      this.live = undefined;
    };
  }

  /** Has a model answer. It is done when the turn has begun; what is wrong with the question is thrown. */
  async ask(question: Question, model = models.model): Promise<void> {
    const thinking = models.thinking || undefined;
    this.asking = true;
    try {
      const body = { ...question, model: model || undefined, thinking } as Schemas['StreamTurn'];
      const { signal } = this.#closed;
      const answer = ask(
        api.POST('/v1/orgs/{org}/chats/{chat}/stream', {
          params: { path: this.#path },
          body,
          parseAs: 'stream',
          signal,
        }),
      );
      void this.#follow(new LiveTurn(this.conversation.calls), (await answer) as unknown as Body);
    } finally {
      this.asking = false;
      // Whatever was said, or runs in its place, is shown.
      void this.conversation.refresh();
    }
  }

  /** Takes up the turn that runs, if a message says that one does and nobody follows it. */
  async look(): Promise<void> {
    if (this.running || this.#looking || this.#closed.signal.aborted) return;
    if (!this.conversation.messages.some((message) => headOf(message)?.state === 'running')) return;
    this.#looking = true;
    try {
      const { items } = await ask(api.GET('/v1/orgs/{org}/chats/{chat}/turns', { params: { path: this.#path } }));
      const found = items[0];
      if (this.running) return;
      if (found) void this.#follow(new LiveTurn(this.conversation.calls, found.id, found.messageId));
      // It ended in between: its message says how.
      else setTimeout(() => void this.conversation.refresh(), PAUSE);
    } catch (error) {
      this.conversation.problem = Problem.of(error);
    } finally {
      this.#looking = false;
    }
  }

  async stop(): Promise<void> {
    const { live } = this;
    if (!live?.id || live.stopping) return;
    live.stopping = true;
    try {
      const path = { ...this.#path, turn: live.id };
      await ask(api.POST('/v1/orgs/{org}/chats/{chat}/turns/{turn}/cancel', { params: { path } }));
    } finally {
      live.stopping = false;
    }
  }

  /** Hears a turn to its end, however often the connection breaks. */
  async #follow(live: LiveTurn, first?: Body): Promise<void> {
    this.live = live;
    const { signal } = this.#closed;
    let pause = PAUSE;
    let body = first;
    while (!live.over && !signal.aborted) {
      try {
        body ??= await this.#takeUp(live);
        live.lost = false;
        for await (const event of sent(body)) {
          pause = PAUSE;
          const began = live.messageId;
          live.take(event);
          if (live.messageId !== began) void this.conversation.refresh();
        }
      } catch (error) {
        // Nobody knows it any more, or it may not be heard any more: its message says what is left of it.
        const { status } = Problem.of(error);
        if (status >= 400 && status < 500) break;
      }
      if (live.over || signal.aborted || !live.id) break;
      body = undefined;
      live.lost = true;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, LONGEST);
    }
    if (signal.aborted) return;
    await this.conversation.refresh();
    if (this.live === live) this.live = undefined;
    void this.look();
  }

  async #takeUp(live: LiveTurn): Promise<Body> {
    const answer = api.GET('/v1/orgs/{org}/chats/{chat}/turns/{turn}/events', {
      params: { path: { ...this.#path, turn: live.id ?? '' } },
      headers: live.last === undefined ? {} : { 'Last-Event-ID': live.last },
      parseAs: 'stream',
      signal: this.#closed.signal,
    });
    return (await ask(answer)) as unknown as Body;
  }
}
