// What is known of single tools, for whoever shows their calls. Each is asked for once, and again after tools changed.
import { SvelteMap } from 'svelte/reactivity';
import { api, ask, type Schemas } from '../../api/client';
import { events } from '../../data/events.svelte';
import { session } from '../../data/session.svelte';

export type Tool = Schemas['Tool'];

/** Null: there is no such tool any more. */
const found = new SvelteMap<string, Tool | null>();
const asked = new Set<string>();

const again = () => {
  for (const id of asked) void fetch(id);
};
events.on(['tools_changed'], again, again);

async function fetch(id: string): Promise<void> {
  asked.add(id);
  try {
    found.set(
      id,
      await ask(api.GET('/v1/orgs/{org}/tools/{toolId}', { params: { path: { org: session.org, toolId: id } } })),
    );
  } catch {
    found.set(id, null);
  }
}

/** What is known of a tool; undefined until the answer comes. */
export function known(id: string): Tool | null | undefined {
  const tool = found.get(id);
  if (tool === undefined && !asked.has(id)) void fetch(id);
  return tool;
}

/** What an override of a tool is called: the toolset or the server, and the tool's name there. */
export function overrideKey(tool: Tool): string {
  const mcp = /^mcp:[^:~]*~?([^:]*):(.*)$/s.exec(tool.id);
  if (mcp) return `${mcp[1]}:${mcp[2]}`;
  return tool.toolsetId === 'builtin' ? `builtin:${tool.id}` : tool.id;
}
