// The calls that an app makes: as anybody's, so that what needs a yes of a person needs it here too.
import { api, ask } from '../api/client';
import { events } from '../data/events.svelte';
import { session } from '../data/session.svelte';
import { callAnew, wholeResult } from './file.svelte';
import type { Call } from './value';

/** An app that asks for more at a time is refused. */
const MOST = 8;

export class AppCalls {
  /** Those that wait for a yes. */
  waiting = $state.raw<Call[]>([]);
  #under = 0;

  constructor(
    readonly of: Call,
    /** The tools that the app may call. */
    readonly tools: { name: string; id: string }[],
  ) {}

  call = async (name: string, args: Record<string, unknown>): Promise<unknown> => {
    const tool = this.tools.find((one) => one.name === name);
    if (!tool) throw new Error(`an app may not call ${JSON.stringify(name)}: its server has no such tool for apps`);
    if (this.#under >= MOST) throw new Error(`an app may have ${MOST} calls under way at a time`);
    this.#under += 1;
    try {
      const path = { org: session.org, chat: this.of.chatId };
      // The document calls any object so, which the types do not say.
      const body = { toolId: tool.id, args: args as Record<string, never>, messageId: this.of.messageId };
      const asked = await ask(api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls', { params: { path }, body }));
      return answer(asked.status === 'pending' ? await this.#decided(asked) : asked);
    } finally {
      this.#under -= 1;
    }
  };

  decide = async (call: Call, approve: boolean): Promise<void> => {
    const path = { org: session.org, chat: call.chatId, callId: call.id };
    const body = { approve, digest: call.argsDigest };
    await ask(api.POST('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision', { params: { path }, body }));
  };

  /** The call once it is over. It may be decided here or anywhere else. */
  async #decided(call: Call): Promise<Call> {
    this.waiting = [...this.waiting, call];
    let off = () => {};
    try {
      return await new Promise<Call>((over, failed) => {
        const look = () => {
          callAnew(call.chatId, call.id).then((now) => {
            if (now.status !== 'pending') this.#forget(call);
            if (now.status === 'success' || now.status === 'error') over(now);
          }, failed);
        };
        off = events.on(['tool_call'], (_, data) => data.id === call.id && look(), look);
        // It may have been decided before anybody listened.
        look();
      });
    } finally {
      off();
      this.#forget(call);
    }
  }

  #forget(call: Call): void {
    this.waiting = this.waiting.filter((one) => one.id !== call.id);
  }
}

async function answer(call: Call): Promise<unknown> {
  if (call.status === 'success') return call.resultTruncated ? wholeResult(call.chatId, call.id) : call.result;
  return { isError: true, content: [{ type: 'text', text: call.error?.message ?? 'The call failed.' }] };
}
