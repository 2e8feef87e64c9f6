// The states that a workspace was in, newest first: asked for part by part, with what each changed.
import { SvelteMap } from 'svelte/reactivity';
import { api, ask, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';
import { events } from '../../data/events.svelte';
import { session } from '../../data/session.svelte';

export interface Item {
  id: string;
  parentId: string | null;
  createdAt: string;
  source: string;
  sourceRef: string | null;
  /** How many files it has. */
  files: number;
}

/** So many are shown before somebody asks for more. */
const ENOUGH = 20;
/** Each state lists all its files, so that a part of a large workspace's history may hold a single one. */
const MOST_PARTS = 6;

export class States {
  items = $state.raw<Item[]>([]);
  /** How many files each changed, where that is known. */
  counts = new SvelteMap<string, number>();
  /** The calls that made them. */
  calls = new SvelteMap<string, { toolId: string; messageId: string }>();
  active = $state<string>();
  loading = $state(false);
  problem = $state.raw<Problem>();
  #cursor = $state<string | null>();
  #asked = false;
  /** Files of those whose parent has not come yet: what they changed is known when it does. */
  #waiting = new Map<string, Schemas['Manifest']>();

  constructor(readonly chat: string) {}

  get #path() {
    return { org: session.org, chat: this.chat };
  }

  get hasMore(): boolean {
    return this.#cursor !== null;
  }

  /** Asks for the newest, unless that was done. */
  need = (): void => {
    if (this.#asked) return;
    this.#asked = true;
    void this.more();
  };

  more = async (): Promise<void> => {
    if (this.loading || !this.hasMore) return;
    this.loading = true;
    this.problem = undefined;
    try {
      const wanted = this.items.length + ENOUGH;
      for (let parts = 0; parts < MOST_PARTS && this.hasMore && this.items.length < wanted; parts++)
        this.#cursor = await this.#part(this.#cursor ?? undefined);
    } catch (error) {
      this.problem = Problem.of(error);
      this.#asked = this.items.length > 0;
    }
    this.loading = false;
  };

  /** Asks for a part; where the next one begins. */
  async #part(cursor: string | undefined): Promise<string | null> {
    const [list, chat] = await Promise.all([
      ask(
        api.GET('/v1/orgs/{org}/chats/{chat}/workspace/manifests', {
          params: { path: this.#path, query: { cursor, limit: 50 } },
        }),
      ),
      ask(api.GET('/v1/orgs/{org}/chats/{chat}', { params: { path: this.#path } })),
    ]);
    this.active = chat.activeManifestId ?? undefined;
    const known = new Set(this.items.map((item) => item.id));
    for (const state of list.items) this.#count(state);
    const fresh = list.items.filter((state) => !known.has(state.id)).map(itemOf);
    // An id is a time, so the newest has the greatest.
    this.items = [...this.items, ...fresh].sort((one, other) => (one.id < other.id ? 1 : -1));
    void this.#name(fresh);
    return list.nextCursor;
  }

  #count(state: Schemas['Manifest']): void {
    for (const child of [...this.#waiting.values()].filter((child) => child.parentId === state.id)) {
      this.counts.set(child.id, differing(state.files, child.files));
      this.#waiting.delete(child.id);
    }
    if (this.counts.has(state.id)) return;
    if (state.parentId === null) this.counts.set(state.id, Object.keys(state.files).length);
    else this.#waiting.set(state.id, state);
  }

  async #name(items: Item[]): Promise<void> {
    for (const { source, sourceRef } of items) {
      if (source !== 'tool_run' || !sourceRef || this.calls.has(sourceRef)) continue;
      try {
        const path = { ...this.#path, callId: sourceRef };
        const { toolId, messageId } = await ask(
          api.GET('/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}', { params: { path } }),
        );
        this.calls.set(sourceRef, { toolId, messageId });
      } catch {
        // A call that cannot be asked for has no name; that there was one is said all the same.
      }
    }
  }

  /** Listens until what is returned is called. */
  open(): () => void {
    const again = () => {
      if (!this.#asked || this.loading) return;
      this.#part(undefined).then(
        (cursor) => {
          // The first part may be all there is; otherwise it is gone on from where it was.
          if (this.#cursor === undefined) this.#cursor = cursor;
        },
        (error: unknown) => (this.problem = Problem.of(error)),
      );
    };
    return events.on(
      ['workspace_changed'],
      (_, data) => {
        if (data.chatId !== this.chat) return;
        const added = (data.changedCount as number) + (data.deletedCount as number);
        if (data.manifestId) this.counts.set(data.manifestId as string, added);
        again();
      },
      again,
    );
  }
}

function itemOf({ id, parentId, createdAt, source, sourceRef, files }: Schemas['Manifest']): Item {
  return { id, parentId, createdAt, source, sourceRef, files: Object.keys(files).length };
}

function differing(before: Record<string, string>, after: Record<string, string>): number {
  let count = 0;
  for (const path in after) if (before[path] !== after[path]) count += 1;
  for (const path in before) if (!(path in after)) count += 1;
  return count;
}

/** What made a state, in words. */
export function titleOf(item: Item, calls: States['calls']): string {
  const call = item.sourceRef ? calls.get(item.sourceRef) : undefined;
  switch (item.source) {
    case 'tool_run':
      return call ? `${call.toolId} ran` : 'A tool ran';
    case 'user_upload':
      return 'Upload';
    case 'branch':
      return 'An earlier state was restored';
    case 'edit':
      return item.sourceRef ? 'A file was restored' : 'Edit';
    default:
      return 'The beginning';
  }
}
