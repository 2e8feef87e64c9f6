// An override while it is edited. What is empty is not said.
import { bodyOf, type Body, type Override } from './layers';

export type Choice = '' | 'yes' | 'no';

export interface Draft {
  name: string;
  description: string;
  renderer: string;
  config: Record<string, unknown>;
  requiresConfirmation: Choice;
  enabled: Choice;
}

const choice = (value: boolean | null | undefined): Choice => (value === true ? 'yes' : value === false ? 'no' : '');

export function draftOf(over: Override | undefined): Draft {
  return {
    name: over?.nameOverride ?? '',
    description: over?.descriptionOverride ?? '',
    renderer: over?.renderer ?? '',
    config: (over?.rendererConfig as Record<string, unknown> | null | undefined) ?? {},
    requiresConfirmation: choice(over?.requiresConfirmation),
    enabled: choice(over?.enabled),
  };
}

/** What it says, as the API takes it. */
export function said(draft: Draft): Body {
  return bodyOf({
    key: '',
    toolsetId: '',
    origin: 'user',
    nameOverride: draft.name.trim(),
    descriptionOverride: draft.description.trim(),
    renderer: draft.renderer || null,
    rendererConfig: Object.keys(draft.config).length ? (draft.config as Record<string, never>) : null,
    requiresConfirmation: draft.requiresConfirmation === '' ? null : draft.requiresConfirmation === 'yes',
    enabled: draft.enabled === '' ? null : draft.enabled === 'yes',
  });
}

/** Whether two say the same; the order of keys does not matter. */
export function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}
