// Which model somebody chose, kept in this browser for each organisation.
import { session } from '../../../data/session.svelte';
import { offered } from '../../../models/offered.svelte';

/** How hard a model should think; nothing is its own way. */
export const EFFORTS = ['', 'low', 'medium', 'high'] as const;
export type Effort = (typeof EFFORTS)[number];

interface Choice {
  /** Empty if somebody wants none. */
  model?: string;
  thinking?: Effort;
}

const key = () => `kitbag-model:${session.org}`;

function kept(): Choice {
  try {
    const { model, thinking } = JSON.parse(localStorage.getItem(key()) ?? '{}') as Record<string, unknown>;
    return {
      model: typeof model === 'string' ? model : undefined,
      thinking: EFFORTS.find((effort) => effort === thinking),
    };
  } catch {
    return {};
  }
}

let choice = $state.raw<Choice>();

/** What was chosen is read when it is first asked for: only then it is known where we are. */
const chosen = () => choice ?? kept();

function choose(more: Choice): void {
  choice = { ...chosen(), ...more };
  localStorage.setItem(key(), JSON.stringify(choice));
}

export const models = {
  /** The one that is asked; empty for none. */
  get model(): string {
    return chosen().model ?? offered.list?.default ?? '';
  },
  set model(model: string) {
    choose({ model });
  },
  get thinking(): Effort {
    return chosen().thinking ?? '';
  },
  set thinking(thinking: Effort) {
    choose({ thinking });
  },
};
