// Turning tools on and off for everybody: a tool by an override, a toolset or a server as a whole.
import { api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';
import type { Catalogue } from './catalogue.svelte';
import type { Group } from './groups';
import { overrideKey, type Tool } from './known.svelte';

/** Turns a tool on or off; what else somebody overrode about it stays. */
export async function turnTool(tool: Tool, enabled: boolean): Promise<void> {
  const path = { org: session.org, id: tool.toolsetId };
  const key = overrideKey(tool);
  const { items } = await ask(api.GET('/v1/orgs/{org}/toolsets/{id}/overrides', { params: { path } }));
  const mine = items.find((one) => one.origin === 'user' && one.key === key);
  const body: Schemas['SetOverride'] = {
    nameOverride: mine?.nameOverride,
    descriptionOverride: mine?.descriptionOverride,
    renderer: mine?.renderer,
    rendererConfig: mine?.rendererConfig as Schemas['SetOverride']['rendererConfig'],
    requiresConfirmation: mine?.requiresConfirmation,
    enabled,
  };
  await ask(api.PUT('/v1/orgs/{org}/toolsets/{id}/overrides/{key}', { params: { path: { ...path, key } }, body }));
}

/** Turns all of a group on or off. The built-in tools are no toolset that could be turned off: each of them is. */
export async function turnGroup(group: Group, enabled: boolean, catalogue: Catalogue): Promise<void> {
  const path = { org: session.org };
  if (group.server && catalogue.servers.get(group.server) !== enabled) {
    const params = { path: { ...path, serverKey: group.server } };
    await ask(api.PUT('/v1/orgs/{org}/mcp-servers/{serverKey}', { params, body: { enabled } }));
  }
  const hasSwitch = group.kind !== 'builtin' && (!group.server || enabled);
  if (hasSwitch && catalogue.toolsets.get(group.toolset) !== enabled) {
    const params = { path: { ...path, id: group.toolset } };
    await ask(api.POST('/v1/orgs/{org}/toolsets/{id}/enable', { params, body: { enabled } }));
  }
  // What was turned off by itself comes back with a whole that is on already.
  if (group.kind === 'builtin' || (enabled && isSwitchedOn(group, catalogue)))
    for (const tool of group.tools) if (tool.enabled !== enabled) await turnTool(tool, enabled);
}

/** The catalogue as it will be when that is done. */
export function withGroup(catalogue: Catalogue, group: Group, enabled: boolean): Catalogue {
  const mine = new Set(enabled || group.kind === 'builtin' ? group.tools.map((tool) => tool.id) : []);
  const toolsets = new Map(catalogue.toolsets);
  const servers = new Map(catalogue.servers);
  if (group.server) servers.set(group.server, enabled);
  if (!group.server || enabled) toolsets.set(group.toolset, enabled);
  return {
    ...catalogue,
    toolsets,
    servers,
    tools: catalogue.tools.map((tool) => (mine.has(tool.id) ? { ...tool, enabled } : tool)),
  };
}

/** Whether a group is on, as a whole or in part. */
export function groupState(group: Group, catalogue: Catalogue): 'on' | 'some' | 'off' {
  if (!isSwitchedOn(group, catalogue)) return 'off';
  const on = group.tools.filter((tool) => tool.enabled).length;
  return on === group.tools.length ? 'on' : on ? 'some' : 'off';
}

/** Whether what brings the tools of a group is on: its toolset, and its server. */
export function isSwitchedOn(group: Omit<Group, 'tools'>, catalogue: Catalogue): boolean {
  return (
    catalogue.toolsets.get(group.toolset) !== false &&
    (group.server === undefined || catalogue.servers.get(group.server) !== false)
  );
}
