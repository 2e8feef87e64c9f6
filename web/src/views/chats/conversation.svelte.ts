// One chat: its messages as a tree, where it stands, its calls, and what they left running.
import { all, api, ask, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';
import { events } from '../../data/events.svelte';
import { session } from '../../data/session.svelte';
import { Calls, type Call } from './calls.svelte';
import { Tree, type Message } from './tree';
import { headOf } from './turns/blocks';
import { models } from './turns/models.svelte';
import { Turns } from './turns/turns.svelte';

export type Chat = Schemas['Chat'];
export type Process = Schemas['Process'];

export class Conversation {
  readonly calls: Calls;
  readonly turns: Turns;
  chat = $state.raw<Chat>();
  messages = $state.raw<Message[]>([]);
  processes = $state.raw<Process[]>([]);
  problem = $state.raw<Problem>();
  /** It goes to another branch just now. */
  moving = $state(false);
  readonly tree = $derived(new Tree(this.messages));
  readonly line = $derived(this.tree.line(this.chat?.activeLeafMessageId));
  readonly callsOf = $derived.by(() => {
    const found = new Map<string, Call[]>();
    for (const call of this.calls.byId.values()) {
      const beside = found.get(call.messageId);
      if (beside) beside.push(call);
      else found.set(call.messageId, [call]);
    }
    return found;
  });
  /** A tool has the workspace, or a model is at work in it: until that is over nobody can go to another branch. */
  readonly busy = $derived.by(
    () => this.turns.running || [...this.calls.byId.values()].some((call) => call.status === 'running'),
  );

  constructor(readonly id: string) {
    this.calls = new Calls(id);
    this.turns = new Turns(this);
  }

  get #path() {
    return { org: session.org, chat: this.id };
  }

  /** Loads it and hears what happens, until what is returned is called. */
  open(): () => void {
    const offTurns = this.turns.open();
    void this.load();
    const offCalls = this.calls.listen(
      () => void this.refresh(),
      () => void this.load(),
    );
    const offRest = events.on(['chat_changed', 'process', 'workspace_changed'], (name, data) => {
      if (data.chatId !== this.id) return;
      if (name === 'process') this.processes = data.processes as Process[];
      else if (data.source !== 'tool_run') void this.refresh();
    });
    return () => {
      offTurns();
      offCalls();
      offRest();
    };
  }

  async load(): Promise<void> {
    try {
      const page = (cursor?: string) => ({ params: { path: this.#path, query: { limit: 200, cursor } } });
      const [calls, processes] = await Promise.all([
        all((cursor) => ask(api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls', page(cursor)))),
        ask(api.GET('/v1/orgs/{org}/chats/{chat}/processes', { params: { path: this.#path } })),
        this.#read(),
      ]);
      for (const call of calls) this.calls.put(call);
      this.processes = processes.items;
      this.problem = undefined;
    } catch (error) {
      this.problem = Problem.of(error);
    }
  }

  /** Asks again where it stands and what was said. */
  async refresh(): Promise<void> {
    try {
      await this.#read();
    } catch (error) {
      this.problem = Problem.of(error);
    }
  }

  async #read(): Promise<void> {
    const [chat, messages] = await Promise.all([
      ask(api.GET('/v1/orgs/{org}/chats/{chat}', { params: { path: this.#path } })),
      all((cursor) =>
        ask(
          api.GET('/v1/orgs/{org}/chats/{chat}/messages', {
            params: { path: this.#path, query: { limit: 200, cursor } },
          }),
        ),
      ),
    ]);
    this.messages = messages;
    this.chat = chat;
    void this.turns.look();
  }

  async change(body: Schemas['UpdateChat']): Promise<void> {
    this.chat = await ask(api.PATCH('/v1/orgs/{org}/chats/{chat}', { params: { path: this.#path }, body }));
  }

  /** Stands at a message; its branch's workspace comes along. */
  async stand(messageId: string): Promise<void> {
    if (messageId === this.chat?.activeLeafMessageId) return;
    this.moving = true;
    try {
      this.chat = await ask(
        api.POST('/v1/orgs/{org}/chats/{chat}/active-leaf', { params: { path: this.#path }, body: { messageId } }),
      );
    } finally {
      this.moving = false;
    }
  }

  /** Goes to the newest end of a branch. */
  follow(messageId: string): Promise<void> {
    return this.stand(this.tree.newest(messageId));
  }

  /** Adds a message: below where the chat stands, or as a branch below another. */
  async say(role: Schemas['Role'], content: Schemas['Content'], parentId?: string | null): Promise<Message> {
    const message = await ask(
      api.POST('/v1/orgs/{org}/chats/{chat}/messages', {
        params: { path: this.#path },
        body: { role, content, ...(parentId === undefined ? {} : { parentId }) },
      }),
    );
    await this.refresh();
    return message;
  }

  /** The message of a person that a message answers, or that it is. */
  questionOf(message: Message): Message | undefined {
    const asked = message.role === 'user' ? message : this.tree.get(message.parentId ?? '');
    return asked?.role === 'user' ? asked : undefined;
  }

  /** Has a model answer a message of a person, or what an answer answered, once more: a branch with the workspace as it was. */
  async answer(message: Message): Promise<void> {
    const asked = this.questionOf(message);
    if (asked) await this.turns.ask({ messageId: asked.id }, models.model || headOf(message)?.model);
  }

  /** Calls a tool below where the chat stands. */
  async run(toolId: string, args: Record<string, unknown>): Promise<Call> {
    const call = await this.calls.run(toolId, args);
    await this.refresh();
    return call;
  }

  /** Makes a call once more, beside the first one and on the workspace that the first one found. */
  async retry(call: Call, args: Record<string, unknown>): Promise<void> {
    const message = this.tree.get(call.messageId);
    const before = this.chat?.activeLeafMessageId;
    const parent = message?.parentId ?? null;
    try {
      if (parent === null) {
        // Nobody can stand above the first message: the call gets a message of its own at the top.
        const top = await this.say('tool', [{ type: 'tool_call', toolId: call.toolId } as Schemas['Block']], null);
        // A branch at the top begins with nothing; this one begins where the call began.
        const { preManifestId: manifestId } = call;
        if (manifestId) {
          const body = { manifestId };
          await ask(api.POST('/v1/orgs/{org}/chats/{chat}/workspace/checkout', { params: { path: this.#path }, body }));
        }
        await this.calls.run(call.toolId, args, top.id);
      } else {
        await this.stand(parent);
        await this.calls.run(call.toolId, args);
      }
    } catch (error) {
      if (before) await this.stand(before).catch(() => undefined);
      throw error;
    } finally {
      await this.refresh();
    }
  }

  async stop(process: Process): Promise<void> {
    await ask(
      api.DELETE('/v1/orgs/{org}/chats/{chat}/processes/{id}', {
        params: { path: { ...this.#path, id: process.id } },
      }),
    );
    this.processes = this.processes.filter((one) => one.id !== process.id);
  }
}
