// One file of a workspace: its address, its content, and what kind of thing it is.
import { Problem } from '../../api/problem';
import { session } from '../../data/session.svelte';
import { to } from '../../route/router.svelte';
import { nameOf } from './tree';

/** A text of more bytes is only shown if somebody wants it. */
export const LARGE = 1 << 20;
/** A text of more bytes is never put into an editor. */
export const HUGE = 16 << 20;
/** The tag of a file that is empty: the server has no part of it to give. */
const EMPTY = '"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"';

export interface Content {
  /** Changes with the content. */
  tag: string;
  size: number;
  /** The first bytes; all, if `bytes.length` is `size`. */
  bytes: Uint8Array<ArrayBuffer>;
}

/** An address of the API that concerns a workspace. */
export function at(chat: string, ...parts: string[]): string {
  return to('v1', 'orgs', session.org, 'chats', chat, 'workspace', ...parts);
}

export function address(chat: string, path: string, manifest?: string): string {
  return at(chat, 'files', ...path.split('/')) + query({ manifest });
}

/** The address of everything, or of a folder, as a ZIP. */
export function archive(chat: string, { manifest, folder }: { manifest?: string; folder?: string } = {}): string {
  return at(chat, 'archive') + query({ manifest, folder });
}

/** The address of a file in this page. */
export function view(chat: string, path = '', manifest?: string): string {
  return to('files', chat, ...path.split('/').filter(Boolean)) + query({ manifest });
}

/** The address of how a file differs between two states; without the second, between one and now. */
export function difference(
  chat: string,
  from: string | undefined,
  until: string | undefined,
  change: { path: string; renamedFrom: string | null },
): string {
  const was = change.renamedFrom ?? undefined;
  return view(chat) + query({ tab: 'compare', from, to: until, file: change.path, was });
}

export function query(values: Record<string, string | undefined>): string {
  const given = Object.entries(values).filter((pair): pair is [string, string] => Boolean(pair[1]));
  return given.length > 0 ? `?${new URLSearchParams(given).toString()}` : '';
}

/** Asks for a file; an answer that is an error of the API is thrown. */
export async function request(url: string, init: RequestInit, may: number[] = []): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    throw Problem.of(error);
  }
  if (answer.ok || may.includes(answer.status)) return answer;
  throw Problem.answered(answer.status, await answer.json().catch(() => undefined));
}

/** Reads the first bytes of a file; nothing, if there is no such file. */
export async function read(url: string, most: number, signal?: AbortSignal): Promise<Content | undefined> {
  const answer = await request(url, { headers: { range: `bytes=0-${most - 1}` }, signal }, [404, 416]);
  if (answer.status === 404) return undefined;
  if (answer.status === 416) return { tag: EMPTY, size: 0, bytes: new Uint8Array() };
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const size = Number(answer.headers.get('content-range')?.split('/')[1] ?? bytes.length);
  return { tag: answer.headers.get('etag') ?? '', size, bytes };
}

/** The text that these bytes are, if they are one. */
export function textOf(bytes: Uint8Array<ArrayBuffer>, whole: boolean): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    // A character may have been cut in two at the end of a part.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !whole });
  } catch {
    return undefined;
  }
}

export type Look = 'image' | 'audio' | 'video' | 'pdf' | 'other';

const LOOKS: Record<Exclude<Look, 'other'>, string> = {
  image: 'png jpg jpeg gif webp avif bmp ico svg',
  audio: 'mp3 wav ogg oga opus m4a flac aac',
  video: 'mp4 webm mov m4v ogv',
  pdf: 'pdf',
};

/** How a file of this name is shown, whatever is in it. */
export function lookOf(path: string): Look {
  const ending = endingOf(path);
  for (const [look, endings] of Object.entries(LOOKS)) if (endings.split(' ').includes(ending)) return look as Look;
  return 'other';
}

export function isMarkdown(path: string): boolean {
  return ['md', 'markdown', 'mdown'].includes(endingOf(path));
}

export function endingOf(path: string): string {
  const name = nameOf(path);
  const cut = name.lastIndexOf('.');
  return cut < 0 ? '' : name.slice(cut + 1).toLowerCase();
}

export function bytesOf(size: number): string {
  if (size < 1000) return `${size} ${size === 1 ? 'byte' : 'bytes'}`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let at = -1;
  do {
    size /= 1000;
    at += 1;
  } while (size >= 999.5 && at < units.length - 1);
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}
