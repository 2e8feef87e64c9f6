// A toolset while it is written: what somebody has of it in the page, before the server has it.
import { session } from '../../../data/session.svelte';
import { blank, type Draft as Launch } from '../../servers/draft';
import { skillBlank } from './skill';

/** A server. Its name is its id in the toolset. */
export interface ServerDraft extends Launch {
  /** Tells it from the others while its id is being written. */
  key: string;
  enabled: boolean;
}

export interface SkillFile {
  path: string;
  content: string;
  encoding: 'utf8' | 'base64';
}

export interface SkillDraft {
  key: string;
  /** What it is called, in its SKILL.md too. */
  id: string;
  enabled: boolean;
  files: SkillFile[];
}

export type Visibility = 'private' | 'org';

export interface Draft {
  id: string;
  name: string;
  description: string;
  visibility: Visibility;
  servers: ServerDraft[];
  skills: SkillDraft[];
}

export function empty(): Draft {
  // Where others are, nobody sees what somebody begins before they say so; in `local` there are only their own agents.
  const visibility = session.org === 'local' ? 'org' : 'private';
  return { id: '', name: '', description: '', visibility, servers: [], skills: [] };
}

let made = 0;
/** A key that no other has. */
export const newKey = (): string => `${Date.now().toString(36)}-${(made += 1)}`;

export function newServer(): ServerDraft {
  return { ...blank(), key: newKey(), enabled: true };
}

export function newSkill(taken: readonly SkillDraft[]): SkillDraft {
  return {
    key: newKey(),
    enabled: true,
    ...skillBlank(
      free(
        'my-skill',
        taken.map(({ id }) => id),
      ),
    ),
  };
}

/** A name that is not taken: itself, or with a number behind it. */
export function free(wanted: string, taken: readonly string[]): string {
  if (!taken.includes(wanted)) return wanted;
  let number = 2;
  while (taken.includes(`${wanted}-${number}`)) number += 1;
  return `${wanted}-${number}`;
}

/** An id made of a name, as the server makes one. */
export function idOf(name: string, longest = 64): string {
  return name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, longest)
    .replace(/-+$/, '');
}
