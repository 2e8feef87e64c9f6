// What the command palette offers. Views add what can be done in them while they are shown.
import { untrack } from 'svelte';

export interface Command {
  id: string;
  label: string;
  /** The group it is listed in. */
  group: string;
  /** Other words by which it is found; shown beside it where it is found by them. */
  also?: string;
  run: () => void;
}

let open = $state(false);
let keys = $state(false);
let offered = $state.raw<Command[][]>([]);

export const palette = {
  get open(): boolean {
    return open;
  },
  set open(value: boolean) {
    open = value;
  },
  show: (): void => {
    open = true;
  },
  /** Whether the list of keys is shown. */
  get keys(): boolean {
    return keys;
  },
  set keys(value: boolean) {
    keys = value;
  },
  get commands(): Command[] {
    return offered.flat();
  },
  /** Offers these while the component that calls it is shown. */
  offer(commands: () => Command[]): void {
    $effect(() => {
      const mine = commands();
      // What the others offer is no reason to offer this again.
      offered = [...untrack(() => offered), mine];
      return () => {
        offered = untrack(() => offered).filter((list) => list !== mine);
      };
    });
  },
};
