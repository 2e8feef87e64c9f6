// What can be found: the views, what can always be done, and everything that is on the server.
import { all, api, ask } from '../api/client';
import { session } from '../data/session.svelte';
import { theme } from '../data/theme.svelte';
import { router, to } from '../route/router.svelte';
import { toasts } from '../ui/toasts.svelte';
import { titleOf } from '../views/runs/words';
import { BUILDER } from '../views/toolsets/builder/address';
import type { Command } from './palette.svelte';

const go = (id: string, label: string, group: string, href: string, also?: string): Command => ({
  id,
  label,
  group,
  also,
  run: () => router.go(href),
});

async function newChat(): Promise<void> {
  try {
    const chat = await ask(api.POST('/v1/orgs/{org}/chats', { params: { path: { org: session.org } }, body: {} }));
    router.go(to('chats', chat.id));
  } catch (error) {
    toasts.problem(error);
  }
}

export function always(): Command[] {
  return [
    go('view:home', 'Home', 'Go to', '/'),
    go('view:chats', 'Chats', 'Go to', '/chats', 'conversations'),
    go('view:runs', 'Runs', 'Go to', '/runs', 'agents claude codex opencode'),
    go('view:toolsets', 'Toolsets', 'Go to', '/toolsets', 'import install'),
    go('view:gallery', 'Gallery', 'Go to', '/gallery', 'publish adopt public'),
    go('view:servers', 'MCP servers', 'Go to', '/servers', 'add connect'),
    go('view:tools', 'Tools', 'Go to', '/tools', 'playground run'),
    go('view:executors', 'Executors', 'Go to', '/executors', 'machines pair agents'),
    ...(session.isShared
      ? [
          go('view:organization', 'Organisation', 'Go to', '/organization', 'members people roles invite'),
          go('view:you', 'Your account', 'Go to', '/you', 'password sessions sign out'),
        ]
      : []),
    ...(session.manages
      ? [
          go(
            'view:audit',
            'Audit',
            'Go to',
            session.isShared ? '/organization?tab=audit' : '/settings?tab=audit',
            'who did what log',
          ),
        ]
      : []),
    go('view:settings', 'Settings', 'Go to', '/settings', 'preferences'),
    go(
      'view:connect',
      'Connect an agent',
      'Go to',
      '/settings?tab=connect',
      'claude cursor codex vs code opencode mcp client',
    ),
    go('view:tokens', 'Tokens', 'Go to', '/settings?tab=tokens', 'settings access key'),
    go('view:server', 'About this server', 'Go to', '/settings?tab=server', 'settings sandbox doctor limits version'),
    ...(session.manages
      ? [
          go('do:toolset', 'New toolset', 'Do', '/toolsets/new', 'make write skill server'),
          go('do:builder', 'Build a toolset with a model', 'Do', BUILDER, 'ai assistant suggest draft generate'),
        ]
      : []),
    ...(session.decides
      ? [go('do:run', 'New run', 'Do', '/runs?new=1', 'let an agent work claude codex opencode')]
      : []),
    ...(session.manages ? [go('do:pair', 'Pair an executor', 'Do', '/executors?pair=1', 'machine add')] : []),
    { id: 'do:chat', label: 'New chat', group: 'Do', run: () => void newChat() },
    { id: 'do:light', label: 'Light theme', group: 'Do', also: 'appearance', run: () => theme.choose('light') },
    { id: 'do:dark', label: 'Dark theme', group: 'Do', also: 'appearance', run: () => theme.choose('dark') },
    {
      id: 'do:system',
      label: 'Theme of the system',
      group: 'Do',
      also: 'appearance',
      run: () => theme.choose('system'),
    },
    {
      id: 'do:api',
      label: 'API documentation',
      group: 'Do',
      run: () => void window.open('/docs/', '_blank', 'noopener'),
    },
  ];
}

/** What is there by name. A part that cannot be had is left out; the view of it says why. */
export async function things(): Promise<Command[]> {
  const path = { org: session.org };
  const toolsets = all((cursor) =>
    ask(api.GET('/v1/orgs/{org}/toolsets', { params: { path, query: { limit: 200, cursor } } })),
  );
  const servers = ask(api.GET('/v1/orgs/{org}/mcp-servers', { params: { path } }));
  const tools = all((cursor) =>
    ask(api.GET('/v1/orgs/{org}/tools', { params: { path, query: { limit: 200, cursor } } })),
  );
  const chats = ask(api.GET('/v1/orgs/{org}/chats', { params: { path, query: { limit: 200 } } }));
  const runs = ask(api.GET('/v1/orgs/{org}/agent-runs', { params: { path, query: { limit: 50 } } }));
  const had = async <T>(what: Promise<T[]>): Promise<T[]> => what.catch(() => []);
  const lists = await Promise.all([
    had(chats.then(({ items }) => items)),
    had(toolsets),
    had(servers.then(({ items }) => items)),
    had(tools),
    had(runs.then(({ items }) => items)),
  ]);
  return [
    ...lists[0].map((chat) => go(`chat:${chat.id}`, chat.title || 'Untitled chat', 'Chats', to('chats', chat.id))),
    ...lists[1]
      .filter((toolset) => !toolset.userMcp)
      .map((toolset) => go(`toolset:${toolset.id}`, toolset.name, 'Toolsets', to('toolsets', toolset.id), toolset.id)),
    ...lists[2].map((server) =>
      go(`server:${server.id}`, server.serverId, 'MCP servers', to('servers', server.id), server.toolsetName),
    ),
    ...lists[3].map((tool) => go(`tool:${tool.id}`, tool.name, 'Tools', to('tools', tool.id), tool.id)),
    ...lists[4].map((run) => go(`run:${run.id}`, titleOf(run), 'Runs', to('runs', run.id), run.state)),
  ];
}
