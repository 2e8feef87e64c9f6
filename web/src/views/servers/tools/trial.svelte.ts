// One tool that is tried: the call goes through a chat like every other, so that it is asked about, recorded and shown in the same way.
import { all, api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { events } from '../../../data/events.svelte';
import { session } from '../../../data/session.svelte';
import { nameOf, type Server } from '../standing';

type Call = Schemas['ToolCall'];

/** The chat in which the tools of a server are tried: one for each server, made when it is first needed. */
async function chatOf(server: Server): Promise<string> {
  const title = `Tests of ${nameOf(server)}`.slice(0, 200);
  const selector = `mcp:${server.id}`;
  const org = session.org;
  const chats = await all((cursor) =>
    ask(api.GET('/v1/orgs/{org}/chats', { params: { path: { org }, query: { limit: 200, cursor } } })),
  );
  const there = chats.find((chat) => chat.title === title && chat.toolSelectors?.join() === selector);
  if (there) return there.id;
  const body = { title, toolSelectors: [selector] };
  return (await ask(api.POST('/v1/orgs/{org}/chats', { params: { path: { org } }, body }))).id;
}

export class Trial {
  call = $state.raw<Call>();
  problem = $state.raw<Problem>();
  /** What is wrong with the arguments, by JSON pointer. */
  problems = $state.raw<Record<string, string>>({});
  progress = $state<string>();
  asking = $state(false);
  deciding = $state(false);

  get waits(): boolean {
    return this.call?.status === 'pending' && this.call.requiresConfirmation && !this.call.decision;
  }
  get runs(): boolean {
    return this.asking || this.call?.status === 'running' || (this.call?.status === 'pending' && !this.waits);
  }

  /** To be called while a component is made: follows the call to its end. */
  follow(): void {
    $effect(() =>
      events.on(
        ['tool_call', 'tool_call_progress'],
        (name, data) => {
          if (name === 'tool_call' && data.id === this.call?.id) void this.#look();
          if (name === 'tool_call_progress' && data.callId === this.call?.id)
            this.progress = [
              typeof data.fraction === 'number' ? `${Math.round(data.fraction * 100)} %` : '',
              typeof data.message === 'string' ? data.message : '',
            ]
              .filter(Boolean)
              .join(' · ');
        },
        () => void this.#look(),
      ),
    );
  }

  async start(server: Server, toolId: string, args: Record<string, unknown>): Promise<void> {
    this.asking = true;
    this.problem = this.call = this.progress = undefined;
    this.problems = {};
    try {
      const chat = await chatOf(server);
      this.call = await ask(
        api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls', {
          params: { path: { org: session.org, chat }, header: { Prefer: 'respond-async' } },
          // The document says of arguments only that they are an object.
          body: { toolId, args: args as Record<string, never> },
        }),
      );
      // It may have been over before anybody listened for it.
      if (!this.waits) await this.#look();
    } catch (error) {
      this.#told(error);
    }
    this.asking = false;
  }

  async decide(approve: boolean): Promise<void> {
    if (!this.call) return;
    this.deciding = true;
    try {
      this.call = await ask(
        api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision', {
          params: { path: this.#path(this.call), header: { Prefer: 'respond-async' } },
          body: { approve, digest: this.call.argsDigest },
        }),
      );
      await this.#look();
    } catch (error) {
      this.#told(error);
    }
    this.deciding = false;
  }

  async cancel(): Promise<void> {
    if (!this.call) return;
    try {
      this.call = await ask(
        api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/cancel', { params: { path: this.#path(this.call) } }),
      );
    } catch (error) {
      this.#told(error);
    }
  }

  #path(call: Call) {
    return { org: session.org, chat: call.chatId, callId: call.id };
  }

  async #look(): Promise<void> {
    const { call } = this;
    if (!call || call.status === 'success' || call.status === 'error') return;
    try {
      const now = await ask(
        api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}', { params: { path: this.#path(call) } }),
      );
      // An older answer must not undo a newer one.
      if (this.call?.id === now.id && this.call.status !== 'success' && this.call.status !== 'error') this.call = now;
    } catch (error) {
      this.#told(error);
    }
  }

  #told(error: unknown): void {
    const problem = Problem.of(error);
    const details = problem.details as { problems?: { pointer: string; message: string }[] } | undefined;
    const list = Array.isArray(details?.problems) ? details.problems : [];
    this.problems = Object.fromEntries(list.map((one) => [one.pointer, one.message]));
    this.problem = problem;
  }
}
