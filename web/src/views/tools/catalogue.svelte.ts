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
  /** What has become wrong with the server's own lists since it started. */
  stale: string[];
}

/** So many tools are asked for one by one. */
const FEW = 8;

/** To be called while a component is made. */
export function catalogue(): Resource<Catalogue> {
  return resource(
    async (signal) => {
      const path = { org: session.org };
      const part = (cursor?: string) => ({ params: { path, query: { limit: 200, cursor } }, signal });
      const explain = { params: { path, query: { explain: true } }, signal };
      const [callable, resolved, toolsets, servers] = await Promise.all([
        ask(api.GET('/v1/orgs/{org}/available-tools', { params: { path }, signal })),
        ask(api.GET('/v1/orgs/{org}/tools/resolve', explain)),
        all((cursor) => ask(api.GET('/v1/orgs/{org}/toolsets', part(cursor)))),
        ask(api.GET('/v1/orgs/{org}/mcp-servers', { params: { path }, signal })),
      ]);
      const known = new Map(callable.items.map((tool) => [tool.id, tool]));
      // What can be called comes at once. The others, of which there are few, are asked for one by one, or all in parts.
      const others = resolved.tools.map(({ id }) => id).filter((id) => !known.has(id));
      const one = (toolId: string) =>
        ask(api.GET('/v1/orgs/{org}/tools/{toolId}', { params: { path: { ...path, toolId } }, signal }));
      const found =
        others.length <= FEW
          ? await Promise.all(others.map(one))
          : await all((cursor) => ask(api.GET('/v1/orgs/{org}/tools', part(cursor))));
      for (const tool of found) known.set(tool.id, tool);
      return {
        tools: resolved.tools.flatMap(({ id }) => known.get(id) ?? []),
        resolved: new Map(resolved.tools.map((tool) => [tool.id, tool])),
        toolsets: new Map(toolsets.map(({ id, enabled }) => [id, enabled])),
        servers: new Map(servers.items.map(({ id, enabled }) => [id, enabled])),
        stale: resolved.stale,
      };
    },
    { on: ['tools_changed'] },
  );
}
