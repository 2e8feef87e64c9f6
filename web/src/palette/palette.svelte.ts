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
      // An effect that hangs on what it changes itself would never end.
      const changed = () => untrack(() => (round += 1));
      offered.list.push(mine);
      changed();
      return () => {
        offered.list.splice(offered.list.indexOf(mine), 1);
        changed();
      };
    });
  },
};
