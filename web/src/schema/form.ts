// What all fields of one form share.
import { getContext, setContext } from 'svelte';
import type { Problems, Schema } from './schema';

export interface Form {
  readonly root: Schema;
  readonly problems: Problems;
  readonly disabled: boolean;
}

/** What every field is given. */
export interface FieldProps {
  /** How it is called. */
  label: string;
  schema: Schema;
  /** Nothing: it is not there. */
  value: unknown;
  pointer: string;
  required: boolean;
  onchange: (value: unknown) => void;
}

const KEY = Symbol('schema form');

export const openForm = (form: Form): Form => setContext(KEY, form);
export const theForm = (): Form => getContext<Form>(KEY);

/** What is wrong at a place. `deep` is for a field that shows all that is below it. */
export function problemAt(form: Form, pointer: string, deep = false): string | undefined {
  const found = Object.entries(form.problems).filter(
    ([at]) => at === pointer || (deep && at.startsWith(`${pointer}/`)),
  );
  return (
    found.map(([at, text]) => (at === pointer ? text : `${at.slice(pointer.length)} ${text}`)).join('; ') || undefined
  );
}
