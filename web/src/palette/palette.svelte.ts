// What the command palette offers. Views add what can be done in them while they are shown.
import { untrack } from 'svelte';

export interface Command {
  id: string;
  label: string;
  /** The group it is listed in. */
  group: string;
  run: () => void;
}

let open = $state(false);
const offered = $state.raw<{ list: Command[][] }>({ list: [] });
let round = $state(0);

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
  get commands(): Command[] {
    void round;
    return offered.list.flat();
  },
  /** Offers these while the component that calls it is shown. */
  offer(commands: () => Command[]): void {
    $effect(() => {
      const mine = commands();
      offered.list.push(mine);
      // What the others offer is no reason to offer this again.
      untrack(() => (round += 1));
      return () => {
        offered.list.splice(offered.list.indexOf(mine), 1);
        round += 1;
      };
    });
  },
};
