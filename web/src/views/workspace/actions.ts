// What can be done to a workspace, each with the way back from it.
import { api, ask } from '../../api/client';
import { Problem } from '../../api/problem';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';
import { address, at, query, request } from './content';
import { drafts } from './drafts.svelte';
import { nameOf } from './tree';

const path = (chat: string) => ({ org: session.org, chat });

export async function activeState(chat: string): Promise<string | undefined> {
  const found = await ask(api.GET('/v1/orgs/{org}/chats/{chat}', { params: { path: path(chat) } }));
  return found.activeManifestId ?? undefined;
}

async function checkout(chat: string, manifestId: string): Promise<void> {
  const params = { path: path(chat) };
  await ask(api.POST('/v1/orgs/{org}/chats/{chat}/workspace/checkout', { params, body: { manifestId } }));
}

async function bringBack(chat: string, file: string, manifestId: string): Promise<void> {
  const params = { path: path(chat) };
  await ask(api.POST('/v1/orgs/{org}/chats/{chat}/workspace/restore', { params, body: { path: file, manifestId } }));
}

async function remove(chat: string, file: string): Promise<void> {
  await request(address(chat, file), { method: 'DELETE' });
}

/** Does it, says so with a way back, or says why not. */
async function tried(run: () => Promise<{ said: string; undo?: () => Promise<unknown> }>): Promise<boolean> {
  try {
    const { said, undo } = await run();
    const back = undo && { label: 'Undo', run: () => void undo().catch((error: unknown) => toasts.problem(error)) };
    toasts.note(said, back);
    return true;
  } catch (error) {
    toasts.problem(error);
    return false;
  }
}

/** Goes back to a state, unless somebody went on from the one that is to be undone. */
async function goBack(chat: string, before: string | undefined, after: string | undefined): Promise<void> {
  if (!before || (await activeState(chat)) !== after)
    throw new Problem('CONFLICT', 'The workspace was changed again since. Its history has every state to go back to.');
  await checkout(chat, before);
}

export function removeFile(chat: string, file: string): Promise<boolean> {
  return tried(async () => {
    const before = await activeState(chat);
    const draft = drafts.get(chat, file);
    await remove(chat, file);
    drafts.drop(chat, file);
    const undo = async () => {
      await bringBack(chat, file, before!);
      if (draft) drafts.keep(chat, file, draft);
    };
    return { said: `Deleted ${nameOf(file)}.`, undo: before ? undo : undefined };
  });
}

/** The API deletes files one by one; in the middle of it all earlier states are still there. */
export function removeFolder(chat: string, folder: string, files: string[]): Promise<boolean> {
  return tried(async () => {
    const before = await activeState(chat);
    for (const file of files) await remove(chat, file);
    const after = await activeState(chat);
    const undo = () => goBack(chat, before, after);
    return { said: `Deleted ${nameOf(folder)} with ${counted(files.length, 'file')}.`, undo };
  });
}

export async function rename(chat: string, from: string, to: string): Promise<void> {
  const params = { path: path(chat) };
  await ask(api.POST('/v1/orgs/{org}/chats/{chat}/workspace/rename', { params, body: { from, to } }));
  drafts.move(chat, from, to);
}

/** Makes an empty file where nothing is yet. */
export async function create(chat: string, file: string): Promise<void> {
  await request(address(chat, file), { method: 'PUT', headers: { 'if-none-match': '*' }, body: '' });
}

export function restoreState(chat: string, manifest: string): Promise<boolean> {
  return tried(async () => {
    const before = await activeState(chat);
    await checkout(chat, manifest);
    const after = await activeState(chat);
    return { said: 'The workspace is back at that state.', undo: () => goBack(chat, before, after) };
  });
}

export function restoreFile(chat: string, file: string, manifest: string): Promise<boolean> {
  return tried(async () => {
    const before = await activeState(chat);
    const there = await request(address(chat, file), { headers: { range: 'bytes=0-0' } }, [404, 416]);
    await there.body?.cancel();
    await bringBack(chat, file, manifest);
    const undo = () => (there.status === 404 || !before ? remove(chat, file) : bringBack(chat, file, before));
    return { said: `${nameOf(file)} is back as it was.`, undo };
  });
}

/** A form may have at most 10 000 files. */
const MOST_FILES = 5000;

export function upload(chat: string, folder: string, files: Picked[], replace: boolean): Promise<boolean> {
  return tried(async () => {
    const before = await activeState(chat);
    let after = before;
    for (let from = 0; from < files.length; from += MOST_FILES) {
      const form = new FormData();
      for (const { path: to, file } of files.slice(from, from + MOST_FILES)) form.append('file', file, to);
      const url = at(chat, 'uploads') + query({ folder, replace: String(replace) });
      const answer = await request(url, { method: 'POST', body: form });
      after = ((await answer.json()) as { manifestId: string }).manifestId;
    }
    const undo = before ? () => goBack(chat, before, after) : undefined;
    const said = files.length === 1 ? nameOf(files[0]!.path) : counted(files.length, 'file');
    return { said: `Uploaded ${said}${folder && ` to ${folder}`}.`, undo };
  });
}

/** A file that somebody picked, and its path below the folder it goes to. */
export interface Picked {
  path: string;
  file: File;
}

export function counted(count: number, what: string): string {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}
