// Edits that were not saved. They are kept until they are saved or given up: across views, and across a reload of the page.
import { SvelteMap } from 'svelte/reactivity';

export interface Draft {
  /** The tag of the content that was edited; none if the file was not there. */
  base: string | undefined;
  text: string;
}

const PREFIX = 'kitbag-draft ';
const kept = new SvelteMap<string, Draft>();

for (let at = 0; at < sessionStorage.length; at++) {
  const key = sessionStorage.key(at);
  if (key?.startsWith(PREFIX)) kept.set(key.slice(PREFIX.length), JSON.parse(sessionStorage.getItem(key)!) as Draft);
}

const name = (chat: string, path: string) => `${chat} ${path}`;

export const drafts = {
  get(chat: string, path: string): Draft | undefined {
    return kept.get(name(chat, path));
  },
  keep(chat: string, path: string, draft: Draft): void {
    kept.set(name(chat, path), draft);
    try {
      sessionStorage.setItem(PREFIX + name(chat, path), JSON.stringify(draft));
    } catch {
      // Too large to be kept across a reload; whoever leaves is asked.
    }
  },
  drop(chat: string, path: string): void {
    kept.delete(name(chat, path));
    sessionStorage.removeItem(PREFIX + name(chat, path));
  },
  /** The file has another name now. */
  move(chat: string, from: string, to: string): void {
    for (const path of drafts.of(chat)) {
      if (path !== from && !path.startsWith(`${from}/`)) continue;
      drafts.keep(chat, to + path.slice(from.length), kept.get(name(chat, path))!);
      drafts.drop(chat, path);
    }
  },
  /** The files of a chat that have such edits. */
  of(chat: string): string[] {
    return [...kept.keys()].filter((key) => key.startsWith(`${chat} `)).map((key) => key.slice(chat.length + 1));
  },
};

// A reload keeps them, but closing the tab would not.
window.addEventListener('beforeunload', (event) => {
  if (kept.size > 0) event.preventDefault();
});
