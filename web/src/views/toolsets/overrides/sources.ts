// Where the values of a tool come from while its override is edited.
import type { Schemas } from '../../../api/client';
import { same, type Draft } from './draft';
import { below, words, type FieldName, type Origin, type Override } from './layers';

export interface Sources {
  draft: Draft;
  /** What is kept. */
  kept: Draft;
  /** The key that is edited. */
  own: string;
  overrides: Override[];
  /** The tool, if it is one and not a pattern. */
  tool?: Schemas['ToolDetail'];
}

const originsOf = ({ tool }: Sources) => tool?.origins as Record<FieldName, Origin> | undefined;

/** What a field shows about itself. */
export function about(sources: Sources, field: FieldName): { origin: string; said: boolean; changed: boolean } {
  const { draft, kept, own, tool } = sources;
  const said = draft[field] !== '';
  const origins = originsOf(sources);
  return {
    origin: origins ? words(origins[field], own, tool?.provider) : said ? 'Your override' : 'Not overridden',
    said,
    changed: !same(draft[field], kept[field]) || (field === 'renderer' && !same(draft.config, kept.config)),
  };
}

/** What holds when nothing is said here; nothing if that is not known, for what is said here hides it. */
export function inherited<T>(
  sources: Sources,
  field: FieldName,
  ofTool: T | undefined,
  ofOverride: (over: Override) => T,
): T | undefined {
  const { overrides, own } = sources;
  const under = below(overrides, own, field);
  if (under) return ofOverride(under);
  const origin = originsOf(sources)?.[field];
  return origin?.from === 'user' && origin.key === own ? undefined : ofTool;
}

/** The choice to say nothing, with what holds then. */
export function asItComes(known: string | undefined): string {
  return known ? `As it comes: ${known}` : 'As it comes';
}
