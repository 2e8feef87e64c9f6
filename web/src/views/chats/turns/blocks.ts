// What a model's turn leaves in its message: first how the turn stands, then what the model said and did.
import type { Message } from '../tree';

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
}

/** How many tools there were, and whether the model got a search in their place. */
export interface Tools {
  count: number;
  searched: boolean;
  savedTokens: number;
}

export type State = 'running' | 'done' | 'cancelled' | 'failed' | 'limited' | 'interrupted';

/** The first block. */
export interface Head {
  type: 'turn';
  turnId: string;
  state: State;
  model: string;
  steps: number;
  usage: Usage;
  tools: Tools;
  /** Why the model stopped, if it did so by itself. */
  stop?: string | { other: string } | null;
  error?: { code: string; message: string };
}

export interface TextBlock {
  type: 'text' | 'thinking';
  text: string;
}

/** A call as the model wrote it. It has a call of the chat, or an error that says why there is none, or neither if the turn ended before. */
export interface CallBlock {
  type: 'tool_call';
  id: string;
  name: string;
  arguments?: Record<string, unknown>;
  /** What it wrote in place of arguments. */
  raw?: string;
  error?: string;
  toolCallId?: string;
  toolId?: string;
}

export interface SearchBlock {
  type: 'tool_search';
  id: string;
  arguments?: { query?: string };
  found: { name: string; description: string }[];
}

export type Block = TextBlock | CallBlock | SearchBlock;

/** How the turn stands that wrote a message; nothing if none did. Anybody can add a message, so what is no head is not taken for one. */
export function headOf({ content }: Pick<Message, 'content'>): Head | undefined {
  if (typeof content === 'string') return undefined;
  const first = content[0] as Partial<Head> | undefined;
  const { type, turnId, state, model, usage } = first ?? {};
  const is = type === 'turn' && [turnId, state, model].every((word) => typeof word === 'string');
  return is && typeof usage === 'object' && usage !== null ? (first as Head) : undefined;
}

/** What the model said and did. */
export function blocksOf(message: Message): Block[] {
  return headOf(message) ? (message.content as unknown as Block[]).slice(1) : [];
}

/** What kind of block it is; nothing for one that is not known here, or not as it should be. */
export function kindOf(block: Block): Block['type'] | undefined {
  const { type, text, name, found } = block as unknown as Record<string, unknown>;
  const isGood =
    type === 'text' || type === 'thinking'
      ? typeof text === 'string'
      : type === 'tool_call'
        ? typeof name === 'string'
        : type === 'tool_search' && Array.isArray(found);
  return isGood ? block.type : undefined;
}
