// A turn that runs, as it is heard: blocks that are whole, and the one that is still growing.
import { SvelteMap } from 'svelte/reactivity';
import type { Sent } from '../../../api/sent';
import type { Call, Calls } from '../calls.svelte';
import type { Block, CallBlock, Head, Tools, Usage } from './blocks';

/** Words are shown this often while they come, so that a long text is not laid out anew for each of them. */
const TOGETHER = 40;
const NOTHING: Usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

export class LiveTurn {
  id = $state<string>();
  /** The message that it writes. */
  messageId = $state<string>();
  head = $state.raw<Head>();
  /** Calls that the model is writing. */
  writing = $state.raw<{ id: string; name: string }[]>([]);
  /** It cannot be heard just now; it goes on nevertheless. */
  lost = $state(false);
  stopping = $state(false);
  /** The number of the last event. */
  last: string | undefined;
  readonly #byIndex = new SvelteMap<number, Block>();
  readonly blocks = $derived([...this.#byIndex].sort(([one], [other]) => one - other).map(([, block]) => block));
  #waiting: { index: number; type: 'text' | 'thinking'; text: string } | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly calls: Calls,
    id?: string,
    messageId?: string,
  ) {
    [this.id, this.messageId] = [id, messageId];
  }

  get over(): boolean {
    return this.head !== undefined && this.head.state !== 'running';
  }

  take({ id, name, data }: Sent): void {
    if (id !== undefined) this.last = id;
    switch (name) {
      case 'turn':
        return this.#begin(data);
      case 'text':
      case 'thinking':
        return this.#grow(name, data.index as number, data.delta as string);
      case 'block':
        return this.#whole(data.index as number, data.block as Block);
      case 'tool_call_began':
        this.writing = [...this.writing, { id: data.id as string, name: data.name as string }];
        return;
      case 'tool_call':
        return this.calls.take(data.call as Call);
      case 'tool_call_progress':
        return this.calls.advance(data);
      case 'usage':
        return this.#know({ usage: data.total as Usage, steps: data.step as number });
      case 'error':
        return this.#know({ error: data as Head['error'] });
      case 'done':
        this.#show();
        this.writing = [];
        return this.#know({ state: data.state as Head['state'], stop: data.stop as Head['stop'] });
    }
  }

  #begin(data: Sent['data']): void {
    [this.id, this.messageId] = [data.turnId as string, data.messageId as string];
    const { model, tools } = data as { model: string; tools: Tools };
    this.head = { type: 'turn', turnId: this.id, state: 'running', model, steps: 1, usage: NOTHING, tools };
  }

  #know(more: Partial<Head>): void {
    if (this.head) this.head = { ...this.head, ...more };
  }

  #grow(type: 'text' | 'thinking', index: number, delta: string): void {
    if (this.#waiting && this.#waiting.index !== index) this.#show();
    if (this.#waiting) this.#waiting.text += delta;
    else this.#waiting = { index, type, text: delta };
    this.#timer ??= setTimeout(() => this.#show(), TOGETHER);
  }

  #show(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#waiting) return;
    const { index, type, text } = this.#waiting;
    this.#waiting = undefined;
    const before = this.#byIndex.get(index);
    this.#byIndex.set(index, { type, text: (before && 'text' in before ? before.text : '') + text });
  }

  /** What is whole takes the place of its pieces. */
  #whole(index: number, block: Block): void {
    if (this.#waiting?.index === index) this.#waiting = undefined;
    this.#byIndex.set(index, block);
    const { id } = block as CallBlock;
    if (id) this.writing = this.writing.filter((one) => one.id !== id);
  }
}
