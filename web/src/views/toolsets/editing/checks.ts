// What is wrong with a toolset while it is written, as far as the page can tell, and what the server said about it, each at its place.
// A place is a part of the draft: `name`, `servers.KEY.command`, `servers.KEY.env.NAME`, `skills.KEY.files.PATH`.
import { isReference, REFERENCE_RULE } from '../../servers/draft';
import type { Draft, ServerDraft, SkillDraft } from './draft';
import { bytesOf, ENTRY, LARGEST_FILE, LARGEST_SKILL, MOST_FILES, pathProblem } from './skill';

export interface Finding {
  place: string;
  message: string;
  /** Something is missing: nobody is told so while they are still on the way to it. */
  late?: boolean;
}

const ID = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const ID_RULE = 'Lower-case letters, digits, - and _, beginning with a letter or a digit; at most 64.';
const SKILL_ID = /^[a-z0-9]+(-[a-z0-9]+)*$/;
/** `new` is where a new one is written in this page. */
const RESERVED = ['mcp', 'toolset', 'builtin', 'all', 'new'];

/** Everything that is wrong; `strict` where values must be references. */
export function check(draft: Draft, isNew: boolean, strict: boolean): Finding[] {
  const found: Finding[] = [];
  const say = (place: string, message: string, late = false) => found.push({ place, message, late });
  if (!draft.name.trim()) say('name', 'A toolset has a name.', true);
  if (draft.name.length > 120) say('name', 'A name has at most 120 characters.');
  if (draft.description.length > 2000) say('description', 'A description has at most 2,000 characters.');
  if (isNew && draft.id && !ID.test(draft.id)) say('id', ID_RULE);
  if (isNew && RESERVED.includes(draft.id)) say('id', `“${draft.id}” is taken by Kitbag itself.`);
  for (const server of draft.servers) checkServer(server, draft.servers, strict, say);
  for (const skill of draft.skills) checkSkill(skill, draft.skills, say);
  return found;
}

type Say = (place: string, message: string, late?: boolean) => void;

function checkServer(server: ServerDraft, all: ServerDraft[], strict: boolean, tell: Say): void {
  const say: Say = (field, message, late) => tell(`servers.${server.key}.${field}`, message, late);
  const id = server.name.trim();
  if (!id) say('id', 'A server has an id.', true);
  else if (!ID.test(id)) say('id', ID_RULE);
  else if (all.some((other) => other !== server && other.name.trim() === id))
    say('id', `There are two servers “${id}”.`);
  if (server.description.length > 2000) say('description', 'A description has at most 2,000 characters.');
  if (server.way === 'command' && !server.command.trim()) say('command', 'A process has a command.', true);
  if (server.way === 'url') {
    if (!server.url.trim()) say('url', 'A server on the web has an address.', true);
    else if (!/^https?:\/\/[^/]+/i.test(server.url.trim())) say('url', 'An address begins with https:// or http://.');
  }
  const kind = server.way === 'command' ? 'env' : 'headers';
  const pairs = server[kind];
  for (const [at, { name, value, kept }] of pairs.entries()) {
    const place = `${kind}.${at}`;
    const called = name.trim();
    if (!called && value) say(place, 'It has a value and no name.', true);
    if (called && pairs.slice(0, at).some((other) => other.name.trim() === called))
      say(place, `${called} is there twice.`);
    if (!value && !kept && called) say(place, 'It has no value.', true);
    if (strict && value && !isReference(value)) say(place, REFERENCE_RULE);
  }
}

function checkSkill(skill: SkillDraft, all: SkillDraft[], tell: Say): void {
  const say: Say = (field, message, late) => tell(`skills.${skill.key}.${field}`, message, late);
  if (!skill.id) say('id', 'A skill has an id.', true);
  else if (!SKILL_ID.test(skill.id) || skill.id.length > 64)
    say('id', 'Lower-case letters and digits, parted by single -; at most 64.');
  else if (all.some((other) => other !== skill && other.id === skill.id))
    say('id', `There are two skills “${skill.id}”.`);
  if (!skill.files.some(({ path }) => path === ENTRY)) say('files', `A skill has a ${ENTRY}, spelled so, at its top.`);
  if (skill.files.length > MOST_FILES)
    say('files', `A skill has at most ${MOST_FILES} files, not ${skill.files.length}.`);
  let sum = 0;
  for (const [at, file] of skill.files.entries()) {
    const bytes = bytesOf(file);
    sum += bytes;
    if (bytes > LARGEST_FILE) say(`files.${file.path}`, 'A file has at most 2 MB.');
    const wrong = pathProblem(
      file.path,
      skill.files.slice(0, at).map(({ path }) => path),
    );
    if (wrong) say(`files.${file.path}`, wrong);
  }
  if (sum > LARGEST_SKILL) say('files', 'The files of a skill have at most 16 MB together.');
}
