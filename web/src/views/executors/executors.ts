// Executors as the API has them.
import { all, api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';

export type Executor = Schemas['Executor'];

const path = (executor: string) => ({ org: session.org, executor });

export const executors = {
  list: (signal?: AbortSignal): Promise<Executor[]> =>
    all((cursor) =>
      ask(
        api.GET('/v1/orgs/{org}/executors', {
          params: { path: { org: session.org }, query: { limit: 200, cursor } },
          signal,
        }),
      ),
    ),

  pair: (body: Schemas['CreatePairingToken']): Promise<Schemas['PairingToken']> =>
    ask(api.POST('/v1/orgs/{org}/executors/pairing-tokens', { params: { path: { org: session.org } }, body })),

  update: (id: string, body: Schemas['UpdateExecutor']): Promise<Executor> =>
    ask(api.PATCH('/v1/orgs/{org}/executors/{executor}', { params: { path: path(id) }, body })),

  async revoke(id: string): Promise<void> {
    await ask(api.DELETE('/v1/orgs/{org}/executors/{executor}', { params: { path: path(id) } }));
  },
};

/** Labels as somebody types them: words with commas or on lines of their own. */
export function labelsOf(text: string): string[] {
  return [
    ...new Set(
      text
        .split(/[,\n]/)
        .map((label) => label.trim())
        .filter(Boolean),
    ),
  ];
}

/** The groups among labels. */
export function groupsOf(list: readonly Executor[]): string[] {
  const groups = list.flatMap(({ labels }) => labels.filter((label) => label.startsWith('group:')));
  return [...new Set(groups.map((label) => label.slice('group:'.length)))].sort();
}
