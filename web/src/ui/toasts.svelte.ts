// Short notes at the edge of the page, and the way back from what was just done.
import { Problem } from '../api/problem';

export interface Toast {
  id: number;
  kind: 'note' | 'problem';
  text: string;
  action?: { label: string; run: () => void };
}

const LONG = 6000;
let next = 0;
const shown = $state<Toast[]>([]);
/** What is not done yet, and can still be undone. */
const owed = new Map<number, { timer: ReturnType<typeof setTimeout>; settle: () => void }>();

function add(toast: Omit<Toast, 'id'>): number {
  const id = ++next;
  shown.push({ id, ...toast });
  return id;
}

export const toasts = {
  get shown(): readonly Toast[] {
    return shown;
  },
  note(text: string, action?: Toast['action']): void {
    const id = add({ kind: 'note', text, action });
    setTimeout(() => toasts.close(id), LONG);
  },
  problem(error: unknown): void {
    const problem = Problem.of(error);
    if (problem.code === 'ABORTED') return;
    add({ kind: 'problem', text: problem.message });
  },
  /**
   * Does something after a while, unless it is undone: in place of "are you sure?". `undo` puts back what the view took away already;
   * it is called too if doing it fails.
   */
  undoable(text: string, run: () => Promise<unknown>, undo: () => void): void {
    const settle = () => {
      owed.delete(id);
      toasts.close(id);
      run().catch((error: unknown) => {
        undo();
        toasts.problem(error);
      });
    };
    const back = () => {
      clearTimeout(owed.get(id)?.timer);
      owed.delete(id);
      toasts.close(id);
      undo();
    };
    const id = add({ kind: 'note', text, action: { label: 'Undo', run: back } });
    owed.set(id, { timer: setTimeout(settle, LONG), settle });
  },
  close(id: number): void {
    const waiting = owed.get(id);
    if (waiting) {
      clearTimeout(waiting.timer);
      waiting.settle();
      return;
    }
    const at = shown.findIndex((toast) => toast.id === id);
    if (at >= 0) shown.splice(at, 1);
  },
};

// Whoever leaves the page meant it.
window.addEventListener('pagehide', () => {
  for (const waiting of [...owed.values()]) {
    clearTimeout(waiting.timer);
    waiting.settle();
  }
});
