// The first step: what a toolset is to do, and who is asked. It stays as it is written while the page is open, whatever fails.
import { api, ask } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { llmOf, type Llm } from '../../../models/names';
import { router, to } from '../../../route/router.svelte';
import { toasts } from '../../../ui/toasts.svelte';
import { BUILDER } from './address';
import { building } from './building.svelte';

class Beginning {
  intent = $state('');
  /** The model as it is named, with its provider in front. */
  model = $state('');
  busy = $state(false);
  problem = $state.raw<Problem>();

  get llm(): Llm | undefined {
    return llmOf(this.model);
  }

  /** Goes back to the first step, with words that are there already. */
  anew(intent: string): void {
    this.intent = intent;
    this.problem = undefined;
    router.go(BUILDER);
  }

  start = async (): Promise<void> => {
    const { llm } = this;
    if (!llm || this.busy) return;
    this.busy = true;
    this.problem = undefined;
    try {
      const params = { path: { org: session.org } };
      const body = { intent: this.intent.trim() || undefined, llm };
      const turned = await ask(api.POST('/v1/orgs/{org}/toolsets/builder/sessions', { params, body }));
      building(turned.sessionId).begin(turned);
      this.intent = '';
      const go = () => router.go(to('toolsets', 'new', 'builder', turned.sessionId));
      // Whoever went elsewhere meanwhile is not taken away from there.
      if (router.path === BUILDER) go();
      else toasts.note('The model has answered.', { label: 'Go on', run: go });
    } catch (error) {
      this.problem = Problem.of(error);
    }
    this.busy = false;
  };
}

export const beginning = new Beginning();
