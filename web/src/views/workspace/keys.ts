// Where the keys that move lead in a tree.
import type { Row } from './tree';

const PAGE = 15;

/** The row that a key leads to from another; nothing if it leads nowhere. */
export function move(key: string, rows: readonly Row[], at: number): number | undefined {
  const row = rows[at];
  switch (key) {
    case 'ArrowDown':
      return at + 1;
    case 'ArrowUp':
      return at - 1;
    case 'PageDown':
      return at + PAGE;
    case 'PageUp':
      return at - PAGE;
    case 'Home':
      return 0;
    case 'End':
      return rows.length - 1;
    case 'ArrowRight':
      // Into a folder that is open.
      return row?.open ? at + 1 : undefined;
    case 'ArrowLeft': {
      if (!row || row.open || row.level === 1) return undefined;
      for (let above = at - 1; above >= 0; above--) if (rows[above]!.level < row.level) return above;
      return undefined;
    }
    default:
      return undefined;
  }
}

/** The next row, from one on and around, whose name begins with what was typed. */
export function beginning(typed: string, rows: readonly Row[], from: number): number | undefined {
  for (let step = 0; step < rows.length; step++) {
    const index = (Math.max(0, from) + step) % rows.length;
    if (rows[index]!.node.name.toLowerCase().startsWith(typed)) return index;
  }
  return undefined;
}
