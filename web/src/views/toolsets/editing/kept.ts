// What somebody has written and not saved, kept across a reload of the page in this tab alone. No value that may be a secret is kept:
// of variables and headers only references to variables are, and the rest is to be written again.
import { session } from '../../../data/session.svelte';
import type { Pair } from '../../servers/draft';
import type { Draft } from './draft';

export interface Kept {
  /** When what was changed had been changed last; nothing for a new toolset. */
  base: string | undefined;
  draft: Draft;
}

const name = (id: string | undefined) => `kitbag-toolset ${session.org} ${id ?? ''}`;

export const kept = {
  get(id: string | undefined): Kept | undefined {
    try {
      return JSON.parse(sessionStorage.getItem(name(id)) ?? 'null') ?? undefined;
    } catch {
      return undefined;
    }
  },
  keep(id: string | undefined, { base, draft }: Kept): void {
    try {
      sessionStorage.setItem(name(id), JSON.stringify({ base, draft: bare(draft) }));
    } catch {
      // Too large to be kept across a reload. What was kept before is older than what is shown.
      sessionStorage.removeItem(name(id));
    }
  },
  drop(id: string | undefined): void {
    sessionStorage.removeItem(name(id));
  },
};

function bare(draft: Draft): Draft {
  const pairs = (list: Pair[]) =>
    list.map((pair) => ({ ...pair, value: /^\$\{(ENV:)?\w{1,128}\}$/.test(pair.value) ? pair.value : '' }));
  return {
    ...draft,
    servers: draft.servers.map((server) => ({ ...server, env: pairs(server.env), headers: pairs(server.headers) })),
  };
}
