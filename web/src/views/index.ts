// Which view an address shows. Each is loaded when it is first looked at.
import type { Component } from 'svelte';

// Views take what their address names; the table below is where that is checked.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type View = { default: Component<any> };

export interface Found {
  /** A view that differs in this is made anew. */
  key: string;
  load: () => Promise<View>;
  props: Record<string, string>;
}

interface Way {
  /** Parts of the path: a word, `:name` for any part, `*name` for all that follow. */
  pattern: string;
  load: () => Promise<View>;
}

const edit = () => import('./toolsets/editing/Edit.svelte');
const builder = () => import('./toolsets/builder/Builder.svelte');
const workspace = () => import('./workspace/Workspace.svelte');

const WAYS: Way[] = [
  { pattern: '', load: () => import('./home/Home.svelte') },
  { pattern: 'chats', load: () => import('./chats/Chats.svelte') },
  { pattern: 'chats/:chat', load: () => import('./chats/Chat.svelte') },
  { pattern: 'chats/:chat/calls/:call', load: () => import('../render/Call.svelte') },
  { pattern: 'files/:chat', load: workspace },
  { pattern: 'files/:chat/*path', load: workspace },
  { pattern: 'toolsets', load: () => import('./toolsets/Toolsets.svelte') },
  { pattern: 'toolsets/new', load: edit },
  { pattern: 'toolsets/new/builder', load: builder },
  { pattern: 'toolsets/new/builder/:builder', load: builder },
  { pattern: 'toolsets/:id/edit', load: edit },
  { pattern: 'toolsets/:id', load: () => import('./toolsets/Toolset.svelte') },
  { pattern: 'gallery', load: () => import('./gallery/Gallery.svelte') },
  { pattern: 'gallery/:slug', load: () => import('./gallery/Published.svelte') },
  { pattern: 'servers', load: () => import('./servers/Servers.svelte') },
  { pattern: 'servers/:server', load: () => import('./servers/Server.svelte') },
  { pattern: 'tools', load: () => import('./tools/Tools.svelte') },
  { pattern: 'tools/:tool', load: () => import('./tools/Tool.svelte') },
  { pattern: 'runs', load: () => import('./runs/Runs.svelte') },
  { pattern: 'runs/:run', load: () => import('./runs/Run.svelte') },
  { pattern: 'executors', load: () => import('./executors/Executors.svelte') },
  { pattern: 'organization', load: () => import('./organization/Organization.svelte') },
  { pattern: 'you', load: () => import('./you/You.svelte') },
  { pattern: 'settings', load: () => import('./settings/Settings.svelte') },
];

export function find(parts: string[]): Found | undefined {
  for (const way of WAYS) {
    const props = match(way.pattern.split('/').filter(Boolean), parts);
    // Another file of the same workspace is the same view.
    if (props)
      return {
        key: [way.pattern.split('/*')[0], props.chat ?? Object.values(props).join('/')].join(' '),
        load: () => loaded(way.load),
        props,
      };
  }
  return undefined;
}

/** The same promise each time, so that a view that is shown already is not made anew. */
const views = new Map<Way['load'], Promise<View>>();

function loaded(load: Way['load']): Promise<View> {
  const known = views.get(load);
  if (known) return known;
  const asked = load();
  views.set(load, asked);
  asked.catch(() => views.delete(load));
  return asked;
}

function match(pattern: string[], parts: string[]): Record<string, string> | undefined {
  const props: Record<string, string> = {};
  for (const [at, word] of pattern.entries()) {
    if (word.startsWith('*')) {
      props[word.slice(1)] = parts.slice(at).join('/');
      return parts.length > at ? props : undefined;
    }
    const part = parts[at];
    if (part === undefined || (!word.startsWith(':') && word !== part)) return undefined;
    if (word.startsWith(':')) props[word.slice(1)] = part;
  }
  return pattern.length === parts.length ? props : undefined;
}
