// The files of a skill: what a new one begins with, and how one becomes of files that somebody brings.
import { Problem } from '../../../api/problem';
import { isLitter, type Packable } from '../importing/zip';
import { idOf, newKey, type SkillDraft, type SkillFile } from './draft';

export const ENTRY = 'SKILL.md';
/** What the server takes at the most. */
export const MOST_FILES = 512;
export const LARGEST_FILE = 2_000_000;
export const LARGEST_SKILL = 16 << 20;

const begin = (id: string, title: string) => `---
name: ${id}
description: Describe what this skill does and when to use it. An agent sees only this line until it decides to read on.
---

# ${title}

## When to use it

- The task that this skill is for, in the words that people use for it
- What it is not for

## How to do it

1. Look at what is there before changing anything.
2. Do the work, step by step, with the commands and the order that matter.
3. Check the result: say what a good one looks like.

## Example

Input and output of one typical case.
`;

/** What a new skill has but for its key. */
export function skillBlank(id: string): Omit<SkillDraft, 'key' | 'enabled'> {
  return { id, files: [{ path: ENTRY, content: begin(id, titled(id)), encoding: 'utf8' }] };
}

/** `my-skill` as people would write it. */
function titled(id: string): string {
  const words = id.replaceAll('-', ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A field of the front matter, where it stands on one line. */
export function frontField(text: string, field: string): string | undefined {
  const front = /^---\s*\n([^]*?)\n---\s*(\n|$)/.exec(text)?.[1];
  const found = front && new RegExp(`^${field}:[ \\t]*(.+?)[ \\t]*$`, 'm').exec(front)?.[1];
  return found ? found.replace(/^(["'])(.*)\1$/, '$2') : undefined;
}

/** The text with another name in its front matter. */
export function renamed(text: string, id: string): string {
  return text.replace(/^(---\s*\n(?:(?!---).*\n)*?name:[ \t]*)(.*)$/m, (_, before: string) => before + id);
}

/** The same skill under another id, which its SKILL.md says too. */
export function called(skill: SkillDraft, id: string): SkillDraft {
  const files = skill.files.map((file) =>
    file.path === ENTRY && id && frontField(file.content, 'name') === skill.id
      ? { ...file, content: renamed(file.content, id) }
      : file,
  );
  return { ...skill, id, files };
}

/** How many bytes a file has. */
export function bytesOf({ content, encoding }: SkillFile): number {
  if (encoding === 'utf8') return new TextEncoder().encode(content).length;
  return Math.floor((content.replace(/=+$/, '').length * 3) / 4);
}

/** Text if it is one, base64 otherwise. */
export function fileOf(path: string, bytes: Uint8Array): SkillFile {
  try {
    const content = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!content.includes('\0')) return { path, content, encoding: 'utf8' };
  } catch {
    // It is no text.
  }
  let binary = '';
  const PART = 0x8000;
  for (let at = 0; at < bytes.length; at += PART) binary += String.fromCharCode(...bytes.subarray(at, at + PART));
  return { path, content: btoa(binary), encoding: 'base64' };
}

/** Its bytes, to be downloaded. */
export function contentOf({ content, encoding }: SkillFile): Uint8Array<ArrayBuffer> {
  if (encoding === 'utf8') return new TextEncoder().encode(content) as Uint8Array<ArrayBuffer>;
  return Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
}

/** SKILL.md first, then by path. */
export function sorted(files: readonly SkillFile[]): SkillFile[] {
  return [...files].sort((a, b) =>
    a.path === ENTRY ? -1 : b.path === ENTRY ? 1 : a.path < b.path ? -1 : a.path > b.path ? 1 : 0,
  );
}

/** What is wrong with a path of a file, or nothing; `others` are those that are there. */
export function pathProblem(path: string, others: readonly string[]): string | undefined {
  const parts = path.split('/');
  if (!path) return 'A file has a path.';
  if (path.includes('\\')) return 'Folders are parted by /, not by \\.';
  if (/[\0-\x1f\x7f]/.test(path)) return 'A path has no control characters.';
  if (path.startsWith('/') || /^[A-Za-z]:/.test(path)) return 'A path begins in the folder of the skill.';
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return 'A path has no empty part, no . and no ..';
  if (path.length > 200) return 'A path has at most 200 characters.';
  const same = others.find((other) => other.toLowerCase() === path.toLowerCase());
  if (same === path) return `${path} is there already.`;
  if (same) return `${same} is there already; upper and lower case make no difference on some systems.`;
  const folder = others.find((other) => `${other.toLowerCase()}/` === path.toLowerCase().slice(0, other.length + 1));
  if (folder) return `${folder} is a file, so it can hold none.`;
  if (others.some((other) => other.toLowerCase().startsWith(`${path.toLowerCase()}/`)))
    return `${path} is a folder already.`;
  return undefined;
}

interface Brought {
  path: string;
  bytes: () => Promise<Uint8Array>;
}

/** The skills in a folder that somebody brings: each folder with a `SKILL.md` is one. */
export function skillsOfFolder(name: string, files: Packable[]): Promise<SkillDraft[]> {
  const brought = files.map(({ path, file }) => ({
    path,
    bytes: async () => new Uint8Array(await file.arrayBuffer()),
  }));
  return skillsOf(name, brought);
}

/** The same of a ZIP, or of a lone `SKILL.md`. */
export async function skillsOfFile(file: File): Promise<SkillDraft[]> {
  const { Archive } = await import('../importing/zip');
  const archive = await Archive.open(file);
  if (archive)
    return skillsOf(
      file.name.replace(/\.(zip|skill)$/i, ''),
      archive.paths.map((path) => ({ path, bytes: () => Promise.resolve(archive.bytes(path)) })),
    );
  if (file.name === ENTRY) return skillsOfFolder('skill', [{ path: ENTRY, file }]);
  throw new Problem('NO_SKILL', `${file.name} is no ZIP of a skill, or it has more than 32 MB.`);
}

async function skillsOf(name: string, brought: Brought[]): Promise<SkillDraft[]> {
  const files = brought.filter(({ path }) => !path.split('/').some(isLitter));
  const roots = files
    .filter(({ path }) => path === ENTRY || path.endsWith(`/${ENTRY}`))
    .map(({ path }) => path.slice(0, -ENTRY.length))
    // A skill within a skill is a part of it.
    .filter((root, _, all) => !all.some((other) => other !== root && root.startsWith(other)));
  if (!roots.length) throw new Problem('NO_SKILL', `There is no ${ENTRY} in ${name}.`);
  return Promise.all(roots.map((root) => skillAt(root.slice(0, -1).split('/').at(-1) || name, root, files)));
}

async function skillAt(folder: string, root: string, all: Brought[]): Promise<SkillDraft> {
  const files = await Promise.all(
    all
      .filter(({ path }) => path.startsWith(root))
      .map(async ({ path, bytes }) => fileOf(path.slice(root.length), await bytes())),
  );
  const entry = files.find(({ path }) => path === ENTRY)?.content ?? '';
  const id = frontField(entry, 'name') ?? idOf(folder);
  return { key: newKey(), id, enabled: true, files: sorted(files) };
}
