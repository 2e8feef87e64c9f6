// Which commands are shown for what was typed, and in which order.
import { fit } from './fuzzy';
import type { Command } from './palette.svelte';

export interface Found {
  command: Command;
  /** The places of the letters of its label that were typed. */
  at: number[];
}

const MOST = 60;
const MOST_RECENT = 5;
/** Of a group, before anything is typed: a view may offer thousands. */
const MOST_OF_GROUP = 9;
/** What is found by other words than its label comes later. */
const BESIDE = 12;

/** What two views offer under one id is one thing. */
export function once(list: Command[]): Command[] {
  return [...new Map(list.toReversed().map((command) => [command.id, command])).values()].reverse();
}

/** The best first; `last` are the ids of those that were chosen before. */
export function search(query: string, commands: Command[], last: string[]): Found[] {
  const fits: (Found & { score: number })[] = [];
  for (const command of commands) {
    const label = fit(query, command.label);
    const more = command.also && !label ? fit(query, `${command.label} ${command.also}`) : undefined;
    if (!label && !more) continue;
    const used = last.indexOf(command.id);
    const score = (label?.score ?? more!.score - BESIDE) + (used >= 0 ? 8 - used : 0);
    fits.push({ command, at: label?.at ?? [], score });
  }
  return fits.sort((one, other) => other.score - one.score).slice(0, MOST);
}

/** Before anything is typed: what was chosen last, then the beginning of what can always be had. */
export function suggest(commands: Command[], known: Command[], last: string[]): Found[] {
  const used = last
    .map((id) => [...commands, ...known].find((command) => command.id === id))
    .filter((command) => command !== undefined)
    .slice(0, MOST_RECENT);
  const taken = new Set(used.map(({ id }) => id));
  const counts = new Map<string, number>();
  const rest = commands.filter(({ id, group }) => {
    const count = (counts.get(group) ?? 0) + 1;
    counts.set(group, count);
    return !taken.has(id) && count <= MOST_OF_GROUP;
  });
  const recent = used.map((command) => ({ ...command, group: 'Recent' }));
  return [...recent, ...rest].map((command) => ({ command, at: [] }));
}

/** By group, in the order of the best of each. */
export function grouped(list: Found[]): [group: string, list: Found[]][] {
  const groups = new Map<string, Found[]>();
  for (const one of list) {
    const group = groups.get(one.command.group);
    if (group) group.push(one);
    else groups.set(one.command.group, [one]);
  }
  return [...groups];
}
