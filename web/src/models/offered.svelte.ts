// Which models can be asked, as their providers list them. One list for all of the page, asked for anew wherever somebody chooses.
import { api, ask, type Schemas } from '../api/client';
import { Problem } from '../api/problem';
import { session } from '../data/session.svelte';

export type Models = Schemas['Models'];

let list = $state.raw<Models>();
let problem = $state.raw<Problem>();
let asked: Promise<void> | undefined;

async function load(): Promise<void> {
  try {
    list = await ask(api.GET('/v1/orgs/{org}/models', { params: { path: { org: session.org } } }));
    problem = undefined;
  } catch (error) {
    problem = Problem.of(error);
  }
  asked = undefined;
}

export const offered = {
  /** What was listed last; nothing before the first answer. */
  get list(): Models | undefined {
    return list;
  },
  /** Why it is not known which there are. */
  get problem(): Problem | undefined {
    return problem;
  },
  /** Those that can be asked: there is a key, or none is needed. */
  get providers(): Models['providers'] {
    return (list?.providers ?? []).filter(({ available }) => available);
  },
  /** Whether it is known that nobody can be asked. */
  get none(): boolean {
    return list !== undefined && offered.providers.length === 0;
  },
  /** Asks for it anew. Whoever asks meanwhile gets the same answer. */
  refresh: (): Promise<void> => (asked ??= load()),
};

/** Where the keys of models are given: an organisation has its own place for that. */
export const keysHref = (): string => (session.isShared ? '/organization?tab=secrets' : '/settings?tab=secrets');
