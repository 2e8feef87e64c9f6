// What was chosen last, kept in this browser.
const KEY = 'kitbag-recent';
const MOST = 8;

export function recent(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter((id) => typeof id === 'string') : [];
  } catch {
    return [];
  }
}

export function remember(id: string): void {
  localStorage.setItem(KEY, JSON.stringify([id, ...recent().filter((other) => other !== id)].slice(0, MOST)));
}
