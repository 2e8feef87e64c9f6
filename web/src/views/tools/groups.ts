// Tools in groups: what is built in, toolsets, MCP servers.
import type { Tool } from './known.svelte';

export interface Group {
  key: string;
  kind: 'builtin' | 'toolset' | 'mcp';
  label: string;
  toolset: string;
  /** The server key, of the tools of a server. */
  server?: string;
  tools: Tool[];
}

const KINDS = { builtin: 0, toolset: 1, mcp: 2 };

/** The group of a tool. */
export function groupOf(tool: Tool): Omit<Group, 'tools'> {
  if (tool.toolsetId === 'builtin') return { key: 'builtin', kind: 'builtin', label: 'Built in', toolset: 'builtin' };
  const server = tool.provider === 'mcp' ? /^mcp:([^:]*):/.exec(tool.id)?.[1] : undefined;
  if (!server)
    return { key: `toolset:${tool.toolsetId}`, kind: 'toolset', label: tool.toolsetName, toolset: tool.toolsetId };
  const [toolset, name] = server.split('~');
  const label = toolset === name ? tool.toolsetName : `${tool.toolsetName} / ${name}`;
  return { key: `mcp:${server}`, kind: 'mcp', label, toolset: tool.toolsetId, server };
}

/** All groups: built-in tools, then toolsets, then servers, each in the order in which they came. */
export function grouped(tools: readonly Tool[]): Group[] {
  const groups = new Map<string, Group>();
  for (const tool of tools) {
    const of = groupOf(tool);
    const group = groups.get(of.key);
    if (group) group.tools.push(tool);
    else groups.set(of.key, { ...of, tools: [tool] });
  }
  return [...groups.values()].sort((one, other) => KINDS[one.kind] - KINDS[other.kind]);
}

/** Tools that have all these words in their name, id or description. Made ready once, since it is asked at every key. */
export class Searchable {
  readonly #texts: string[];

  constructor(readonly tools: readonly Tool[]) {
    this.#texts = tools.map((tool) =>
      [tool.name, tool.id, tool.modelName, tool.toolsetName, tool.description ?? ''].join('\n').toLowerCase(),
    );
  }

  find(text: string): Tool[] {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return this.tools.filter((_, at) => words.every((word) => this.#texts[at]?.includes(word)));
  }
}
