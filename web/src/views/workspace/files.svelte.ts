// Which files a workspace has: asked for once, then kept up to date by what is heard.
import { api, ask } from '../../api/client';
import { Problem } from '../../api/problem';
import { events, type EventData } from '../../data/events.svelte';
import { session } from '../../data/session.svelte';
import { Tree, nameOf } from './tree';

const PART = 5000;

export class Files {
  /** Changed in place; `version` says when. */
  tree = $state.raw(new Tree());
  version = $state(0);
  /** The state that is shown; none if the workspace never had a file. */
  manifest = $state<string>();
  problem = $state.raw<Problem>();
  loaded = $state(false);
  /** What was heard last, for the file that is shown. */
  heard = $state.raw<{ changed: ReadonlySet<string>; deleted: ReadonlySet<string>; all: boolean }>();
  /** A tool ran since it was asked: what the list says of the last run is no longer true. */
  #ran = false;
  #abort = new AbortController();

  constructor(
    readonly chat: string,
    /** A state to look at; without, the workspace as it is. */
    readonly fixed: string | undefined,
  ) {}

  get #params() {
    return { org: session.org, chat: this.chat };
  }

  /** Asks for everything. What is shown stays until it is there. */
  load = async (): Promise<void> => {
    this.#abort.abort();
    const { signal } = (this.#abort = new AbortController());
    try {
      await this.#load(signal);
      if (!signal.aborted) this.problem = undefined;
    } catch (error) {
      if (!signal.aborted) this.problem = Problem.of(error);
    }
  };

  async #load(signal: AbortSignal): Promise<void> {
    const part = (manifest: string | undefined, cursor: string | undefined) =>
      ask(
        api.GET('/v1/orgs/{org}/chats/{chat}/workspace/files', {
          params: { path: this.#params, query: { manifest, cursor, limit: PART } },
          signal,
        }),
      );
    this.#ran = false;
    const first = await part(this.fixed, undefined);
    const tree = new Tree();
    for (const file of first.items) tree.put(file.path, file);
    let manifest = this.fixed ?? (await this.#active(signal));
    // All paths at once, and what the list says about them while they can be seen already.
    if (first.nextCursor) {
      const state = await ask(
        api.GET('/v1/orgs/{org}/chats/{chat}/workspace/manifest', {
          params: { path: this.#params, query: { id: manifest } },
          signal,
        }),
      );
      manifest = state.id;
      for (const path in state.files) tree.put(path);
    }
    if (signal.aborted) return;
    this.tree = tree;
    this.manifest = manifest;
    this.loaded = true;
    this.version += 1;
    let cursor = first.nextCursor ?? undefined;
    while (cursor) {
      const next = await part(manifest, cursor);
      if (signal.aborted) return;
      // What went since stays away.
      for (const file of next.items) {
        const { size, mode } = file;
        if (tree.file(file.path)) tree.put(file.path, this.#ran ? { size, mode } : file);
      }
      cursor = next.nextCursor ?? undefined;
      this.version += 1;
    }
  }

  async #active(signal: AbortSignal): Promise<string | undefined> {
    const chat = await ask(api.GET('/v1/orgs/{org}/chats/{chat}', { params: { path: this.#params }, signal }));
    return chat.activeManifestId ?? undefined;
  }

  /** Loads, and listens until what is returned is called. */
  open(): () => void {
    void this.load();
    const off = this.fixed
      ? () => {}
      : events.on(
          ['workspace_changed'],
          (_, data) => data.chatId === this.chat && this.#hear(data),
          () => {
            this.heard = { changed: new Set(), deleted: new Set(), all: true };
            void this.load();
          },
        );
    return () => {
      off();
      this.#abort.abort();
    };
  }

  #hear(data: EventData): void {
    const changed = data.changedPaths as string[];
    const deleted = data.deletedPaths as string[];
    const all = data.changedCount > changed.length || data.deletedCount > deleted.length;
    const before = this.manifest;
    this.heard = { changed: new Set(changed), deleted: new Set(deleted), all };
    // Of another branch other files are what the last run changed.
    if (all || !this.loaded || data.source === 'branch') return void this.load();
    // A folder whose last file went is heard of by its own name.
    const added = changed.filter((path) => !this.tree.folder(path));
    for (const path of deleted) this.tree.remove(path);
    // A new name without an ending may be a folder that nothing is in; all else is a file.
    const unsure = added.some((path) => !this.tree.file(path) && !nameOf(path).includes('.'));
    for (const path of added) this.tree.put(path);
    if (data.source === 'tool_run') {
      this.tree.markOnly(added);
      this.#ran = true;
    }
    this.manifest = (data.manifestId as string | null) ?? undefined;
    this.version += 1;
    if (unsure) void this.#look(before, this.manifest);
  }

  async #look(from: string | undefined, to: string | undefined): Promise<void> {
    if (!from || !to) return this.load();
    try {
      const changes = await ask(
        api.GET('/v1/orgs/{org}/chats/{chat}/workspace/diff', { params: { path: this.#params, query: { from, to } } }),
      );
      for (const { path, after } of changes.items)
        if (after && this.tree.file(path)) this.tree.put(path, { size: after.size, mode: after.mode });
      this.version += 1;
    } catch {
      // It is only asked to be exact about what is shown already.
    }
  }
}
