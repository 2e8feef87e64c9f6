// The messages of a chat as a tree: what is below what, and the line that the chat stands on.
import type { Schemas } from '../../api/client';
import { headOf } from './turns/blocks';

export type Message = Schemas['Message'];

export class Tree {
  readonly #byId = new Map<string, Message>();
  readonly #below = new Map<string | null, Message[]>();

  /** The messages come in the order in which they were added. */
  constructor(readonly messages: readonly Message[]) {
    for (const message of messages) {
      this.#byId.set(message.id, message);
      const siblings = this.#below.get(message.parentId);
      if (siblings) siblings.push(message);
      else this.#below.set(message.parentId, [message]);
    }
  }

  get(id: string): Message | undefined {
    return this.#byId.get(id);
  }

  /** What is below a message, oldest first; at the top for null. */
  below(id: string | null): readonly Message[] {
    return this.#below.get(id) ?? [];
  }

  /** A message and those beside it. */
  beside(message: Message): readonly Message[] {
    return this.below(message.parentId);
  }

  /** From the top down to a message. */
  line(leaf: string | null | undefined): Message[] {
    const line: Message[] = [];
    for (let at = leaf ? this.get(leaf) : undefined; at; at = at.parentId ? this.get(at.parentId) : undefined)
      line.push(at);
    return line.reverse();
  }

  /** The newest end below a message. */
  newest(id: string): string {
    let at = id;
    for (let next = this.below(at).at(-1); next; next = this.below(at).at(-1)) at = next.id;
    return at;
  }

  /** All of it from the top down, a branch after the other; `depth` grows where it branches. */
  rows(): { message: Message; depth: number; beside: number }[] {
    const rows: { message: Message; depth: number; beside: number }[] = [];
    const waiting = this.below(null)
      .map((message) => ({ message, depth: 0 }))
      .reverse();
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const { message, depth } = next;
      const below = this.below(message.id);
      rows.push({ message, depth, beside: this.beside(message).length });
      const deeper = depth + (below.length > 1 ? 1 : 0);
      for (const child of [...below].reverse()) waiting.push({ message: child, depth: deeper });
    }
    return rows;
  }
}

/** What a message says, as a text; parts that are no text are left out, and what a model only thought. */
export function textOf({ content }: Pick<Message, 'content'>): string {
  if (typeof content === 'string') return content;
  return (content as Record<string, unknown>[])
    .filter((block) => block.type !== 'thinking')
    .map((block) => block.text)
    .filter((text): text is string => typeof text === 'string')
    .join('\n\n');
}

/** The parts of a message that are neither a text nor a call. */
export function othersOf(message: Message): Record<string, unknown>[] {
  if (typeof message.content === 'string') return [];
  return (message.content as Record<string, unknown>[]).filter(
    (block) => typeof block.text !== 'string' && block.type !== 'tool_call',
  );
}

/** The tool that a message is a call of, if it says so. What a model said may have calls in it, and is none. */
export function toolOf(message: Message): string | undefined {
  if (typeof message.content === 'string' || headOf(message)) return undefined;
  const block = (message.content as Record<string, unknown>[]).find((one) => one.type === 'tool_call');
  return typeof block?.toolId === 'string' ? block.toolId : undefined;
}
