// Runs as the API has them, and what can be done with one from several places of the page.
import { api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';
import { router, to } from '../../route/router.svelte';
import { toasts } from '../../ui/toasts.svelte';
import type { Run } from './words';

const path = (run: string) => ({ org: session.org, run });

export interface Wanted {
  state?: string;
  chat?: string;
  cursor?: string;
  limit?: number;
}

export const runs = {
  list: (wanted: Wanted = {}, signal?: AbortSignal): Promise<Schemas['List_AgentRun']> =>
    ask(
      api.GET('/v1/orgs/{org}/agent-runs', { params: { path: { org: session.org }, query: wanted }, signal }),
    ) as Promise<Schemas['List_AgentRun']>,

  get: (id: string, signal?: AbortSignal): Promise<Run> =>
    ask(api.GET('/v1/orgs/{org}/agent-runs/{run}', { params: { path: path(id) }, signal })),

  create: (body: Schemas['CreateRun']): Promise<Run> =>
    ask(api.POST('/v1/orgs/{org}/agent-runs', { params: { path: { org: session.org } }, body })),

  workspace: (id: string, signal?: AbortSignal): Promise<Schemas['AgentRunWorkspace']> =>
    ask(api.GET('/v1/orgs/{org}/agent-runs/{run}/workspace', { params: { path: path(id) }, signal })),

  /** The call whose result is this event: how it is shown, with an address that lasts for a while. */
  call: (id: string, event: number, signal?: AbortSignal): Promise<Schemas['AgentRunCall']> =>
    ask(api.GET('/v1/orgs/{org}/agent-runs/{run}/calls/{event}', { params: { path: { ...path(id), event } }, signal })),

  cancel: (id: string): Promise<Run> =>
    ask(api.POST('/v1/orgs/{org}/agent-runs/{run}/cancel', { params: { path: path(id) } })),

  /** Does it again as a new run, and goes there. */
  async retry(id: string): Promise<void> {
    const made = await ask(api.POST('/v1/orgs/{org}/agent-runs/{run}/retry', { params: { path: path(id) } }));
    router.go(to('runs', made.id));
  },

  /** Makes what it left the next state of its chat. */
  async apply(id: string): Promise<void> {
    await ask(api.POST('/v1/orgs/{org}/agent-runs/{run}/apply', { params: { path: path(id) } }));
    toasts.note('What the run left is now the state of the chat’s files.');
  },

  /** The address of what happens in it. */
  events: (id: string, after: number): string =>
    `${to('v1', 'orgs', session.org, 'agent-runs', id, 'events')}?after=${after}`,
};
