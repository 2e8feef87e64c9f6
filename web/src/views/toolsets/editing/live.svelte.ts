// What the server says about a skill while it is typed. It keeps nothing of what it is asked about.
import { api, ask } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { bundleOf } from './body';
import type { SkillDraft } from './draft';

export interface SkillProblem {
  /** The file that it is about; none if it is about the skill. */
  path?: string | null;
  line?: number | null;
  column?: number | null;
  severity: 'error' | 'warning';
  message: string;
}

export interface Live {
  readonly problems: readonly SkillProblem[];
  /** Whether what is shown is about what was typed last. */
  readonly settled: boolean;
  /** Why nothing is known. */
  readonly failed: string | undefined;
}

/** So long nothing is typed before it is asked. */
const PAUSE = 250;

/** Asks whenever the skill changes. To be called while a component is made. */
export function liveCheck(skill: () => SkillDraft): Live {
  let problems = $state.raw<SkillProblem[]>([]);
  let settled = $state(false);
  let failed = $state<string>();

  $effect(() => {
    const asked = bundleOf($state.snapshot(skill()) as SkillDraft, true);
    settled = false;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const params = { path: { org: session.org } };
        const request = api.POST('/v1/orgs/{org}/skills/check', { params, body: asked, signal: abort.signal });
        problems = (await ask(request)).problems as SkillProblem[];
        failed = undefined;
        settled = true;
      } catch (error) {
        if (!abort.signal.aborted) failed = Problem.of(error).message;
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });

  return {
    get problems() {
      return problems;
    },
    get settled() {
      return settled;
    },
    get failed() {
      return failed;
    },
  };
}
