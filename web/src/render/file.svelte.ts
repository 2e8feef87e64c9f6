// A text file of a workspace that is read, edited and saved, while tools and others may change it.
import { api, ask } from '../api/client';
import { Problem } from '../api/problem';
import { events } from '../data/events.svelte';
import { session } from '../data/session.svelte';

/** Larger files are not shown as text. */
const MOST = 4_000_000;

/** Where the bytes of a file are; of an earlier state if a manifest is named. */
export function fileUrl(chat: string, path: string, manifest?: string | null): string {
  const place = path.split('/').map(encodeURIComponent).join('/');
  const state = manifest ? `?manifest=${encodeURIComponent(manifest)}` : '';
  return `/v1/orgs/${encodeURIComponent(session.org)}/chats/${encodeURIComponent(chat)}/workspace/files/${place}${state}`;
}

/** Its place in the workspace's view. */
export function workspaceLink(chat: string, path: string): string {
  return `/files/${encodeURIComponent(chat)}/${path.split('/').map(encodeURIComponent).join('/')}`;
}

export interface Content {
  text: string;
  /** Names this content: a save says over which one it is. */
  tag: string;
}

/** The text of a file; nothing if there is no such file. */
export async function readText(url: string, signal?: AbortSignal): Promise<Content | undefined> {
  const answer = await answered(fetch(url, { signal }));
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw await refusal(answer);
  if (Number(answer.headers.get('content-length') ?? 0) > MOST) {
    await answer.body?.cancel();
    throw new Problem('TOO_LARGE', 'The file is too large to be shown here. Download it instead.');
  }
  const bytes = await answer.arrayBuffer();
  try {
    // What marks the byte order is kept, so that saving changes nothing else.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!text.includes('\0')) return { text, tag: answer.headers.get('etag') ?? '' };
  } catch {
    // Not a text.
  }
  throw new Problem('NOT_TEXT', 'The file is not a text. Download it to look at it.');
}

async function answered(request: Promise<Response>): Promise<Response> {
  try {
    return await request;
  } catch (error) {
    throw Problem.of(error);
  }
}

async function refusal(answer: Response): Promise<Problem> {
  const body: unknown = await answer.json().catch(() => undefined);
  return Problem.answered(answer.status, body);
}

export class WorkspaceFile {
  text = $state('');
  /** What the text was when it was read or saved. */
  base = $state.raw('');
  /** `was`: it is not there any more, and this is how it was. */
  state = $state<'loading' | 'here' | 'was' | 'gone'>('loading');
  problem = $state.raw<Problem>();
  saving = $state(false);
  /** What is there now, when it is neither what was read nor what is to be saved; null if nothing is. */
  conflict = $state.raw<Content | null>();
  #tag = '';
  #recheck = false;

  constructor(
    readonly chat: string,
    readonly path: string,
    /** The state to fall back to. */
    readonly manifest?: string | null,
  ) {}

  get dirty(): boolean {
    return this.state === 'here' && this.text !== this.base;
  }

  get url(): string {
    return fileUrl(this.chat, this.path, this.state === 'was' ? this.manifest : undefined);
  }

  /** Reads it, and reads it again whenever it changed. What is returned ends that. */
  open(): () => void {
    void this.#check();
    return events.on(
      ['workspace_changed'],
      (_, data) => {
        if (data.chatId !== this.chat) return;
        const { changedPaths, deletedPaths, changedCount, deletedCount } = data;
        const named = [...changedPaths, ...deletedPaths];
        if (named.includes(this.path) || changedCount + deletedCount > named.length) void this.#check();
      },
      () => void this.#check(),
    );
  }

  /** Asks for what is there now: it is shown, unless something that is not saved would be lost. */
  async #check(): Promise<void> {
    if (this.saving) {
      this.#recheck = true;
      return;
    }
    try {
      const found = await readText(fileUrl(this.chat, this.path));
      this.problem = undefined;
      if (this.dirty) {
        if (found?.tag !== this.#tag && found?.text !== this.text) this.conflict = found ?? null;
        else if (found) this.#tag = found.tag;
        return;
      }
      if (found) this.#adopt(found);
      else await this.#fallBack();
    } catch (error) {
      this.problem = Problem.of(error);
    }
  }

  async #fallBack(): Promise<void> {
    const old = this.manifest ? await readText(fileUrl(this.chat, this.path, this.manifest)) : undefined;
    this.state = old ? 'was' : 'gone';
    this.text = this.base = old?.text ?? '';
    this.conflict = undefined;
  }

  #adopt({ text, tag }: Content): void {
    this.text = this.base = text;
    this.#tag = tag;
    this.state = 'here';
    this.conflict = undefined;
  }

  save = async (): Promise<void> => {
    if (!this.dirty || this.saving || this.conflict !== undefined) return;
    await this.#put({ 'if-match': this.#tag });
  };

  /** Writes over what was shown as being there now, and nothing newer. */
  keepMine = async (): Promise<void> => {
    if (this.conflict === undefined) return;
    await this.#put(this.conflict ? { 'if-match': this.conflict.tag } : { 'if-none-match': '*' });
  };

  takeTheirs = async (): Promise<void> => {
    if (this.conflict) this.#adopt(this.conflict);
    else if (this.conflict === null) await this.#fallBack();
  };

  async #put(condition: Record<string, string>): Promise<void> {
    const text = this.text;
    this.saving = true;
    try {
      const answer = await answered(
        fetch(fileUrl(this.chat, this.path), {
          method: 'PUT',
          headers: { 'content-type': 'application/octet-stream', ...condition },
          body: text,
        }),
      );
      if (answer.status === 412) {
        this.conflict = (await readText(fileUrl(this.chat, this.path))) ?? null;
      } else if (answer.ok) {
        const { sha256 } = (await answer.json()) as { sha256: string };
        this.#tag = `"${sha256}"`;
        this.base = text;
        this.conflict = undefined;
        this.problem = undefined;
      } else throw await refusal(answer);
    } catch (error) {
      this.problem = Problem.of(error);
    } finally {
      this.saving = false;
      if (this.#recheck) void this.#check();
      this.#recheck = false;
    }
  }
}

/** A call anew: with its result if an event left that out, and with an address that lasts. */
export function callAnew(chat: string, callId: string, signal?: AbortSignal) {
  const path = { org: session.org, chat, callId };
  return ask(api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}', { params: { path }, signal }));
}

/** All of what a call returned. */
export function wholeResult(chat: string, callId: string): Promise<unknown> {
  const path = { org: session.org, chat, callId };
  return ask<unknown>(api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/result', { params: { path } }));
}
