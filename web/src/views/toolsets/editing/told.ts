// What the server said about a toolset that it did not take: each thing at its place, for as long as nothing was changed there.
import type { Problem } from '../../../api/problem';
import type { Draft } from './draft';

export interface Told {
  /** As in `checks.ts`; empty where it is about no place in particular. */
  place: string;
  message: string;
  /** The part that it is about, as it was sent. */
  was: string;
}

interface Said {
  field?: string | null;
  path?: string | null;
  file?: string | null;
  line?: number | null;
  column?: number | null;
  message: string;
}

export function toldOf(problem: Problem, sent: Draft): Told[] {
  const said = (problem.details as { problems?: Said[] } | undefined)?.problems;
  const all: Said[] = said?.length ? said : [{ message: problem.message, ...guessed(problem) }];
  return all.map((one) => {
    const place = placeOf(one.field ?? '', sent);
    const line = one.file ?? one.path;
    const at = [line, one.line, one.column].filter((part) => part !== undefined && part !== null).join(':');
    return { place, message: at ? `${at}: ${one.message}` : one.message, was: partOf(sent, place) };
  });
}

/** Those that are about something that is still as it was sent. */
export function stillTold(told: readonly Told[], draft: Draft): Told[] {
  return told.filter(({ place, was }) => partOf(draft, place) === was);
}

/** A conflict is about what must be there once. */
function guessed({ code, message }: Problem): { field?: string } {
  if (code === 'CONFLICT') return { field: 'id' };
  const named = /^((?:mcpServers|agentSkills)\[\d+\][\w.[\]-]*|name|description|visibility|id)\b/.exec(message)?.[1];
  return named ? { field: named } : {};
}

function placeOf(field: string, sent: Draft): string {
  const found = /^(mcpServers|agentSkills)[[.](\d+)\]?(?:\.?(.*))?$/.exec(field);
  if (!found) return field.replace(/^body\./, '');
  const [, list, at, rest = ''] = found;
  if (list === 'agentSkills') {
    const skill = sent.skills[Number(at)];
    const file = /^files[[.](\d+)/.exec(rest)?.[1];
    const path = file && skill?.files[Number(file)]?.path;
    return skill ? `skills.${skill.key}.${path ? `files.${path}` : rest}` : '';
  }
  const server = sent.servers[Number(at)];
  if (!server) return '';
  const pair = /^(env|headers)[.[]"?([^\]"]+)/.exec(rest);
  if (pair) {
    const kind = pair[1] as 'env' | 'headers';
    return `servers.${server.key}.${kind}.${server[kind].findIndex(({ name }) => name.trim() === pair[2])}`;
  }
  return `servers.${server.key}.${{ name: 'id', serverType: 'url' }[rest] ?? rest.replace(/[[.].*$/, '')}`;
}

/** The part of a draft that a place lies in, as a text that changes with it. */
function partOf(draft: Draft, place: string): string {
  const [kind, key = ''] = place.split('.');
  if (kind === 'servers') return JSON.stringify(draft.servers.find((one) => one.key === key) ?? null);
  if (kind === 'skills') return JSON.stringify(draft.skills.find((one) => one.key === key) ?? null);
  const value = draft[kind as keyof Draft];
  return typeof value === 'string' ? value : '';
}
