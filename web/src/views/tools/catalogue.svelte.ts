// All tools there are, whether they can be called or not, with what each takes of a model's context and why a client gets it or not.
import { all, api, ask, type Schemas } from '../../api/client';
import { resource, type Resource } from '../../data/resource.svelte';
import { session } from '../../data/session.svelte';
import type { Tool } from './known.svelte';

export interface Catalogue {
  tools: Tool[];
  resolved: Map<string, Schemas['ResolvedTool']>;
  /** Whether each toolset is on. */
  toolsets: Map<string, boolean>;
  /** Whether each server is on. */
  servers: Map<string, boolean>;
  /** Servers whose tools nobody has seen yet. */
  pending: string[];
  stale: string[];
}

/** To be called while a component is made. */
export function catalogue(): Resource<Catalogue> {
  return resource(
    async () => {
      const path = { org: session.org };
      const part = (cursor?: string) => ({ params: { path, query: { limit: 200, cursor } } });
      const [tools, toolsets, servers, resolved] = await Promise.all([
        all((cursor) => ask(api.GET('/v1/orgs/{org}/tools', part(cursor)))),
        all((cursor) => ask(api.GET('/v1/orgs/{org}/toolsets', part(cursor)))),
        ask(api.GET('/v1/orgs/{org}/mcp-servers', { params: { path } })),
        ask(api.GET('/v1/orgs/{org}/tools/resolve', { params: { path, query: { explain: true } } })),
      ]);
      return {
        tools,
        toolsets: new Map(toolsets.map(({ id, enabled }) => [id, enabled])),
        servers: new Map(servers.items.map(({ id, enabled }) => [id, enabled])),
        resolved: new Map(resolved.tools.map((tool) => [tool.id, tool])),
        pending: resolved.pending,
        stale: resolved.stale,
      };
    },
    { on: ['tools_changed', 'mcp_server'] },
  );
}
