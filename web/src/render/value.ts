// Reading what tools return: nothing about it is certain, so everything is asked for.
import type { Schemas } from '../api/client';

export type Call = Schemas['ToolCall'];
export type Fields = Record<string, unknown>;

export interface Plan {
  renderer: string;
  config: Fields;
}

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The first of these that is a text, and not an empty one. */
export function text(fields: unknown, ...names: string[]): string | undefined {
  if (!isObject(fields)) return undefined;
  for (const name of names) {
    const value = fields[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}

/** The first of these that is a list. */
export function list(fields: unknown, ...names: string[]): unknown[] | undefined {
  if (Array.isArray(fields)) return fields;
  if (!isObject(fields)) return undefined;
  for (const name of names) {
    const value = fields[name];
    if (Array.isArray(value)) return value;
  }
  return undefined;
}

export function planOf(call: { renderPlan: unknown }): Plan | undefined {
  const plan: unknown = call.renderPlan;
  if (!isObject(plan) || typeof plan.renderer !== 'string') return undefined;
  return { renderer: plan.renderer, config: isObject(plan.config) ? plan.config : {} };
}

/** A part of what an MCP server answered. */
export interface Block extends Fields {
  type: string;
}

/** Whether something is the answer of an MCP server's tool. */
export function isAnswer(value: unknown): value is { content: Block[]; structuredContent?: unknown } {
  return (
    isObject(value) &&
    Array.isArray(value.content) &&
    value.content.every((block) => isObject(block) && typeof block.type === 'string')
  );
}

/** What a tool returned, without what MCP puts around it. The server does the same when it makes a plan. */
export function returned(value: unknown): unknown {
  if (!isAnswer(value)) return value;
  if (value.structuredContent !== undefined && value.structuredContent !== null) return value.structuredContent;
  const [block] = value.content;
  if (value.content.length !== 1 || block?.type !== 'text' || typeof block.text !== 'string') return value;
  return parsed(block.text) ?? block.text;
}

/** The object or the list that a text is as JSON. */
export function parsed(words: string): object | undefined {
  if (!/^\s*[[{]/.test(words)) return undefined;
  try {
    return JSON.parse(words) as object;
  } catch {
    return undefined;
  }
}

/** Whether an MCP server answered: its paths are none of the workspace. */
export function isForeign(call: Call): boolean {
  return call.toolId.startsWith('mcp:');
}

/** A list of objects that have no more than plain values: a table. */
export function isTable(value: unknown): value is Fields[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  const plain = (one: unknown) => one === null || typeof one !== 'object';
  return value.every((row) => isObject(row) && Object.values(row).every(plain)) && value.some((row) => size(row) > 0);
}

function size(row: Fields): number {
  return Object.keys(row).length;
}

/** A text as it is, and anything else as JSON that can be read. */
export function words(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

const UNITS = ['bytes', 'kB', 'MB', 'GB'];

export function bytes(count: number): string {
  const step = Math.min(UNITS.length - 1, count < 1000 ? 0 : Math.floor(Math.log10(count) / 3));
  return `${step ? (count / 1000 ** step).toFixed(1) : count} ${UNITS[step]}`;
}

/** An address that may be opened in a new tab. */
export function isWeb(address: string): boolean {
  return /^https?:\/\//i.test(address);
}

export function isImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp|avif|bmp|ico|svg)$/i.test(path);
}
