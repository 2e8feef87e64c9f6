// Toolsets as the API has them, and what can be done with one from several places of the page.
import { SvelteSet } from 'svelte/reactivity';
import { all, api, ask, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';

export type Toolset = Schemas['Toolset'];
export type Detail = Schemas['ToolsetDetail'];
export type Tool = Schemas['Tool'];

/** The id under which overrides of the built-in tools are kept. */
export const BUILTIN = 'builtin';

/** Those that are about to be uninstalled, and can still come back. */
const leaving = new SvelteSet<string>();

const path = (id: string) => ({ org: session.org, id });

export const toolsets = {
  isLeaving: (id: string): boolean => leaving.has(id),

  /** Those that people installed. A server that was added by itself is listed with the servers. */
  list: (signal?: AbortSignal): Promise<Toolset[]> =>
    all((cursor) => {
      const query = { userMcp: false, limit: 200, cursor };
      return ask(api.GET('/v1/orgs/{org}/toolsets', { params: { path: { org: session.org }, query }, signal }));
    }) as Promise<Toolset[]>,

  get: (id: string, signal?: AbortSignal): Promise<Detail> =>
    id === BUILTIN
      ? builtin(signal)
      : ask(api.GET('/v1/orgs/{org}/toolsets/{id}', { params: { path: path(id) }, signal })),

  enable: (id: string, enabled: boolean): Promise<Toolset> =>
    inOrder(id, () =>
      ask(api.POST('/v1/orgs/{org}/toolsets/{id}/enable', { params: { path: path(id) }, body: { enabled } })),
    ),

  /** Says yes to what was shown: an image that is another one by now is refused. */
  trust: ({ id, containers }: Detail): Promise<Detail> => {
    const body = { images: shownImages(containers) };
    return ask(api.POST('/v1/orgs/{org}/toolsets/{id}/trust', { params: { path: path(id) }, body }));
  },

  prepare: (id: string): Promise<Schemas['Prepared']> =>
    ask(api.POST('/v1/orgs/{org}/toolsets/{id}/prepare', { params: { path: path(id) } })),

  /**
   * Takes it off the page now and off the server soon, unless somebody wants it back or the server does not take it off. Not for what is
   * published: that is refused.
   */
  uninstall(toolset: { id: string; name: string }, back: () => void = () => {}): void {
    leaving.add(toolset.id);
    const run = async () => {
      // The page may be on its way out: then it is asked nevertheless.
      const request = api.DELETE('/v1/orgs/{org}/toolsets/{id}', {
        params: { path: path(toolset.id) },
        keepalive: true,
      });
      await ask(request);
      leaving.delete(toolset.id);
    };
    toasts.undoable(`${toolset.name} is uninstalled.`, run, () => {
      leaving.delete(toolset.id);
      back();
    });
  },

  exportUrl: (id: string, force = false): string =>
    `/v1/orgs/${encodeURIComponent(session.org)}/toolsets/${encodeURIComponent(id)}/export${force ? '?force=true' : ''}`,

  /** The bundle, or why there is none. */
  async bundle(id: string, force = false): Promise<Blob> {
    const answer = await fetch(toolsets.exportUrl(id, force)).catch((error: unknown) => {
      throw Problem.of(error);
    });
    if (!answer.ok) throw Problem.answered(answer.status, await answer.json().catch(() => undefined));
    return answer.blob();
  },

  /** Downloads it as a bundle. What looks like a secret is exported when somebody says so. */
  async export(toolset: { id: string; version: string }, force = false): Promise<void> {
    try {
      const url = URL.createObjectURL(await toolsets.bundle(toolset.id, force));
      const link = Object.assign(document.createElement('a'), {
        href: url,
        download: `${toolset.id}-v${toolset.version}.zip`,
      });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      const problem = Problem.of(error);
      if (force || problem.code !== 'CONFLICT' || !session.manages) return toasts.problem(problem);
      const run = () => void toolsets.export(toolset, true);
      toasts.note(problem.message, { label: 'Export anyway', run });
    }
  },
};

const last = new Map<string, Promise<unknown>>();

/** Changes of one thing, one after the other: whoever presses a switch twice means the second. */
export function inOrder<T>(what: string, run: () => Promise<T>): Promise<T> {
  const next = (last.get(what) ?? Promise.resolve()).catch(() => {}).then(run);
  last.set(what, next);
  return next;
}

/** The built-in tools, as if they were a toolset: what is overridden about them is kept in the same way. */
async function builtin(signal?: AbortSignal): Promise<Detail> {
  const tools = (await all((cursor) => {
    const params = { path: { org: session.org }, query: { limit: 200, cursor } };
    return ask(api.GET('/v1/orgs/{org}/tools', { params, signal }));
  })) as Tool[];
  const never = new Date(0).toISOString();
  return {
    id: BUILTIN,
    name: 'Built-in tools',
    version: session.version,
    description: 'They come with Kitbag and work in the workspace of a chat.',
    enabled: true,
    userMcp: false,
    installedAt: never,
    updatedAt: never,
    sourceType: BUILTIN,
    sourceRef: null,
    manifestVersion: '1',
    visibility: 'private',
    publicSlug: null,
    publishedAt: null,
    adoptedFrom: null,
    tools: tools.filter((tool) => tool.provider === 'builtin'),
    mcpServers: [],
    containers: [],
    agentSkills: [],
    files: [],
    trusted: true,
    permissions: {},
    python: {},
  };
}

/** Whether it is in the gallery: then it can neither be edited nor uninstalled before it is taken back. */
export const isPublished = ({ visibility }: { visibility: string }): boolean => visibility === 'public';

/** The published toolset that this one is a copy of. */
export interface Origin {
  publicSlug: string;
  version?: string;
}

export const originOf = (toolset: Toolset): Origin | undefined => (toolset.adoptedFrom as Origin | null) ?? undefined;

/** Whether there is anything in it that only happens once somebody trusts it. */
export function needsTrust(toolset: Detail): boolean {
  return toolset.mcpServers.length > 0 || toolset.containers.length > 0 || wanted(toolset).length > 0;
}

/** Whether it, or a container of it, is not what somebody trusted. */
export function lacksTrust(toolset: Detail): boolean {
  const lacking = toolset.containers.some(({ enabled, trusted, movedTo }) => enabled && (!trusted || movedTo));
  return lacking || (!toolset.trusted && needsTrust(toolset));
}

/** What is said while it is prepared, and of which container. */
export function line(data: Record<string, unknown>): string {
  const message = String(data.message);
  return data.containerId === undefined ? message : `${String(data.containerId)}: ${message}`;
}

/** The images of containers that are shown, as a yes says them. */
export function shownImages(
  containers: { id: string; imageId?: string | null; movedTo?: string | null }[],
): Record<string, string | null> {
  return Object.fromEntries(containers.map(({ id, imageId, movedTo }) => [id, movedTo ?? imageId ?? null]));
}

/** What its tools may do once it is trusted. */
export function wanted(toolset: Detail): string[] {
  return Object.entries(toolset.permissions)
    .filter(([, value]) => value === true)
    .map(([name]) => name);
}

/** What a permission means. */
export const PERMISSIONS: Record<string, string> = {
  network: 'Its tools may reach the network.',
  listen: 'Its tools may leave processes running, such as a preview server, that others can connect to.',
};

/** `1 tool`, `3 tools`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
