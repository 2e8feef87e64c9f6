// The lines of the audit, newest first, as many as somebody wants to see.
import { api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { router } from '../../../route/router.svelte';
import { byToken, whoIs } from '../../../data/who';

export type Line = Schemas['AuditEntry'];

/** What is looked for, as it stands in the address of the view. */
export interface Filter {
  actor?: string;
  action?: string;
  subject?: string;
  /** Days, as a form has them. */
  from?: string;
  to?: string;
}

export const NAMES = ['actor', 'action', 'subject', 'from', 'to'] as const;

export function filter(): Filter {
  return Object.fromEntries(NAMES.map((name) => [name, router.query.get(name) ?? undefined]));
}

/** The same for the API: a day is from one midnight to the next, where whoever asks is. */
export function asked({ actor, action, subject, from, to }: Filter) {
  const since = from && midnight(from, 0);
  const until = to && midnight(to, 1);
  return {
    ...(actor && { actor }),
    ...(action && { action }),
    ...(subject && { subject }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

function midnight(day: string, later: number): string | undefined {
  const at = new Date(`${day}T00:00:00`);
  if (Number.isNaN(at.getTime())) return undefined;
  at.setDate(at.getDate() + later);
  return at.toISOString();
}

/** Where the lines can be taken along from. */
export function exportUrl(wanted: Filter, format: 'csv' | 'jsonl'): string {
  const query = new URLSearchParams({ format, ...asked(wanted) });
  return `/v1/orgs/${encodeURIComponent(session.org)}/audit/export?${query}`;
}

/** Who did it, as people call them: records have numbers beside the names. */
export function whoOf({ actor, userId, tokenId }: Line, names: Map<string, string>): string {
  const name = userId ? names.get(userId) : undefined;
  if (tokenId) return byToken(tokenId, name);
  return name ?? whoIs(actor);
}

export class Lines {
  items = $state.raw<Line[]>([]);
  problem = $state.raw<Problem>();
  loading = $state(false);
  /** Where the next part begins; none when all are here. */
  #next = $state<string>();
  #begun = $state(false);
  #round = 0;

  get hasMore(): boolean {
    return !this.#begun || this.#next !== undefined;
  }

  get isEmpty(): boolean {
    return this.#begun && this.items.length === 0;
  }

  /** Begins anew with what is looked for now. What is there stays until the first part has come. */
  async begin(wanted: Filter): Promise<void> {
    this.#round += 1;
    this.#next = undefined;
    await this.#part(wanted, this.#round, []);
  }

  async more(wanted: Filter): Promise<void> {
    if (!this.loading && this.#next !== undefined) await this.#part(wanted, this.#round, this.items);
  }

  async #part(wanted: Filter, round: number, before: Line[]): Promise<void> {
    this.loading = true;
    this.problem = undefined;
    try {
      const query = { ...asked(wanted), limit: 50, cursor: this.#next };
      const part = await ask(api.GET('/v1/orgs/{org}/audit', { params: { path: { org: session.org }, query } }));
      if (round !== this.#round) return;
      this.items = [...before, ...part.items];
      this.#next = part.nextCursor ?? undefined;
      this.#begun = true;
    } catch (error) {
      if (round !== this.#round) return;
      this.problem = Problem.of(error);
    }
    this.loading = false;
  }
}
