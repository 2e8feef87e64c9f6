// What relative addresses in a document of a workspace mean: other files there.
import { fileUrl, workspaceLink } from './file.svelte';
import type { Around } from './markdown';

export function around(chat: string, path: string): Around {
  return {
    link: (address) => {
      const found = beside(path, address);
      return found === undefined ? undefined : workspaceLink(chat, found);
    },
    image: (address) => {
      const found = beside(path, address);
      return found === undefined ? undefined : fileUrl(chat, found);
    },
  };
}

/** The file that an address means, as seen from another; nothing outside of the workspace. */
function beside(path: string, address: string): string | undefined {
  const plain = decode(address.split(/[?#]/)[0] ?? '');
  if (!plain) return undefined;
  const parts = plain.startsWith('/') ? [] : path.split('/').slice(0, -1);
  for (const part of plain.split('/')) {
    if (part === '..') {
      if (parts.pop() === undefined) return undefined;
    } else if (part !== '' && part !== '.') parts.push(part);
  }
  return parts.length > 0 ? parts.join('/') : undefined;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
