// The keys that work everywhere.
import { router } from '../route/router.svelte';
import { palette } from './palette.svelte';

export const APPLE = /Mac|iPhone|iPad/.test(navigator.platform);
export const CONTROL = APPLE ? '⌘' : 'Ctrl';

/** After `g`. */
export const WAYS: Record<string, [label: string, href: string]> = {
  h: ['Home', '/'],
  c: ['Chats', '/chats'],
  r: ['Runs', '/runs'],
  t: ['Toolsets', '/toolsets'],
  g: ['Gallery', '/gallery'],
  s: ['MCP servers', '/servers'],
  o: ['Tools', '/tools'],
  e: ['Executors', '/executors'],
  p: ['Settings', '/settings'],
};

/** So long the second key may take. */
const PATIENCE = 1200;
let begun = -PATIENCE;

function isTyping(event: Event): boolean {
  // An editor is in a shadow root, and seen from outside only its host is pressed on.
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  // What was focused in a dialog keeps the focus until the next frame after it closed: nobody types in what is gone.
  if (target.closest('dialog:not([open])')) return false;
  return target.isContentEditable || target.closest('input, textarea, select, [role="textbox"], dialog') !== null;
}

export function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    palette.open = !palette.open;
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (event.key === '?') {
    event.preventDefault();
    palette.keys = true;
    return;
  }
  const way = event.timeStamp - begun < PATIENCE ? WAYS[event.key] : undefined;
  begun = event.key === 'g' ? event.timeStamp : -PATIENCE;
  if (way) {
    event.preventDefault();
    router.go(way[1]);
  }
}
