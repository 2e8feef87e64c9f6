// Light, dark, or whatever the system says.
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'kitbag-theme';
let chosen = $state<Theme>(read());

function read(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export const theme = {
  get chosen(): Theme {
    return chosen;
  },
  choose(next: Theme): void {
    chosen = next;
    if (next === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
    theme.apply();
  },
  apply(): void {
    if (chosen === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
  },
};
