// What somebody chose and has not sent, and what they were warned of, kept across a reload in this tab alone. What they wrote is not: it may hold a secret.
import type { Schemas } from '../../../api/client';
import { session } from '../../../data/session.svelte';

interface Kept {
  chosen: string[];
  warnings: string[];
}

type Stood = Pick<Schemas['BuilderSession'], 'sessionId' | 'updatedAt' | 'components'>;

const name = (id: string) => `kitbag-builder ${session.org} ${id}`;

export function keepChosen({ sessionId, updatedAt }: Stood, kept: Kept): void {
  try {
    sessionStorage.setItem(name(sessionId), JSON.stringify({ updatedAt, ...kept }));
  } catch {
    // Without it a reload shows what the server has.
  }
}

/** Nothing if the conversation went on elsewhere meanwhile: then what the server has is newer. */
export function chosenBefore({ sessionId, updatedAt, components }: Stood): Kept | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(name(sessionId)) ?? 'null') as (Kept & Partial<Stood>) | null;
    if (found?.updatedAt !== updatedAt) return undefined;
    const chosen = found.chosen.filter((key) => components.some((one) => one.key === key));
    return { chosen, warnings: found.warnings };
  } catch {
    return undefined;
  }
}
