// The selectors of a chat: which tools they admit, and how they change when somebody turns a tool or a group on or off.
// What is said here is what the server does; see "Who is bound" in docs/resolution.md.
import { ownName } from '../chats/words';
import type { Group } from './groups';
import type { Tool } from './known.svelte';

export type Verdict = { in: true } | { in: false; by?: string };

const EVERYTHING = '-*';

function fits(selector: string, tool: Tool): boolean {
  const text = selector.toLowerCase();
  if (text.startsWith('toolset:') && !text.includes('*')) return text.slice(8) === tool.toolsetId;
  const id = tool.id.toLowerCase();
  if (/^mcp:[^:*]+~[^:*]+$/.test(text)) return id.startsWith(`${text}:`);
  const old = /^mcp:([^:~*]+):([^*]*)$/.exec(text);
  if (old) return id.includes('~') && id.slice(id.indexOf('~') + 1) === `${old[1]}:${old[2]}`;
  if (!text.includes('*')) return id === text;
  const pattern = new RegExp(`^${text.split('*').map(escape).join('.*')}$`, 's');
  return [id, tool.modelName.toLowerCase(), ownName(id)].some((name) => pattern.test(name));
}

const escape = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
const takes = (selector: string) => selector.startsWith('-');
const bare = (selector: string) => selector.slice(1).trim();

/** Whether a chat with these selectors may use a tool. */
export function verdict(selectors: readonly string[] | null | undefined, tool: Tool): Verdict {
  const list = selectors ?? [];
  const by = list.find((one) => takes(one) && fits(bare(one), tool));
  if (by) return { in: false, by };
  const admitting = list.filter((one) => !takes(one));
  return !admitting.length || admitting.some((one) => fits(one, tool)) ? { in: true } : { in: false };
}

/** The one selector that means all tools of a group, now and later. */
export function selectorOf(group: Group, all: readonly Tool[]): string {
  if (group.server) return `mcp:${group.server}`;
  // A toolset's selector means the tools of its servers too.
  const hasServers = all.some((tool) => tool.toolsetId === group.toolset && tool.provider === 'mcp');
  return hasServers ? `${group.toolset}:*` : `toolset:${group.toolset}`;
}

/** The selectors after some tools were turned on or off: one tool, or all of a group by its selector. Nothing is null. */
export function turned(
  selectors: readonly string[] | null | undefined,
  tools: readonly Tool[],
  on: boolean,
  all: readonly Tool[],
  group?: string,
): string[] | null {
  const names = new Set([...tools.map((tool) => tool.id), ...(group ? [group] : [])].map((name) => name.toLowerCase()));
  const mine = new Set(tools.map((tool) => tool.id));
  let list = [...(selectors ?? [])];
  if (on) {
    const wasNothing = list.includes(EVERYTHING);
    list = list.filter((one) => one !== EVERYTHING && !(takes(one) && names.has(bare(one).toLowerCase())));
    for (const broad of list.filter((one) => takes(one) && tools.some((tool) => fits(bare(one), tool)))) {
      // What takes away more than these goes on taking away the rest, by name.
      const rest = all.filter((tool) => fits(bare(broad), tool) && !mine.has(tool.id));
      list = [...list.filter((one) => one !== broad), ...rest.map((tool) => `-${tool.id}`)];
    }
    const out = tools.filter((tool) => wasNothing || !verdict(list, tool).in);
    list.push(...(out.length && group ? [group] : out.map((tool) => tool.id)));
  } else {
    const admitted = list.some((one) => !takes(one));
    list = list.filter((one) => takes(one) || !names.has(one.toLowerCase()));
    // Without one that admits, everything is admitted.
    if (admitted && list.every(takes)) return [EVERYTHING];
    const left = tools.filter((tool) => verdict(list, tool).in);
    if (left.length && group) list = list.filter((one) => !names.has(bare(one).toLowerCase()));
    list.push(...(left.length && group ? [`-${group}`] : left.map((tool) => `-${tool.id}`)));
  }
  list = [...new Set(list)];
  return list.length ? list : null;
}

/** What the selectors of a chat say, in a sentence. */
export function summary(selectors: readonly string[] | null | undefined): string {
  const list = selectors ?? [];
  if (!list.length) return 'It may use every tool, and new ones as they come.';
  if (list.includes(EVERYTHING)) return 'It may use no tool.';
  if (list.every(takes)) return 'It may use every tool but those that are turned off, and new ones as they come.';
  return 'It may use only the tools that are turned on.';
}
