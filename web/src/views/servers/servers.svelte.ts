// What several views of servers do: change, remove, connect anew. What goes wrong is told at the edge of the page.
import { SvelteSet } from 'svelte/reactivity';
import { api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';
import { nameOf, type Server } from './standing';

/** Those that were removed and can still come back. */
export const leaving = new SvelteSet<string>();

export function path(serverKey: string) {
  return { params: { path: { org: session.org, serverKey } } };
}

export function update(server: Server, change: Schemas['UpdateServer']): Promise<Server> {
  return ask(api.PUT('/v1/orgs/{org}/mcp-servers/{serverKey}', { ...path(server.id), body: change }));
}

/** Removes it after a while, unless that is undone. */
export function remove(server: Server, undone: () => void = () => {}): void {
  leaving.add(server.id);
  toasts.undoable(
    `${nameOf(server)} was removed.`,
    async () => {
      const { response, error } = await api.DELETE('/v1/orgs/{org}/mcp-servers/{serverKey}', path(server.id));
      // Somebody else was quicker, and that is what was wanted.
      if (!response.ok && response.status !== 404) await ask(Promise.resolve({ response, error }));
    },
    () => {
      leaving.delete(server.id);
      undone();
    },
  );
}

/** Opens where people sign in. The address is good once, so it is fetched when it is wanted. */
export async function signIn(server: Server): Promise<void> {
  // Opened before the answer: a window that a click did not open is blocked by browsers.
  const opened = window.open('about:blank', '_blank');
  try {
    const { authorizeUrl } = await ask(api.POST('/v1/orgs/{org}/mcp-servers/{serverKey}/sign-in', path(server.id)));
    if (!/^https?:\/\//.test(authorizeUrl)) throw new Error('The address to sign in at is not one of the web.');
    if (opened) {
      opened.opener = null;
      opened.location.href = authorizeUrl;
    } else
      toasts.note('The browser blocked the window to sign in.', {
        label: 'Open it',
        run: () => location.assign(authorizeUrl),
      });
  } catch (error) {
    opened?.close();
    throw error;
  }
}
