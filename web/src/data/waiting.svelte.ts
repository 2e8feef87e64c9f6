// The calls of all chats that wait for somebody's yes or no, kept up to date for as long as the page is open.
import { all, api, ask, type Schemas } from '../api/client';
import { events } from './events.svelte';
import { session } from './session.svelte';

let calls = $state.raw<Schemas['ToolCall'][]>([]);
let asked = $state(false);

async function refresh(): Promise<void> {
  try {
    calls = await all((cursor) =>
      ask(
        api.GET('/v1/orgs/{org}/pending-tool-calls', {
          params: { path: { org: session.org }, query: { limit: 200, cursor } },
        }),
      ),
    );
    asked = true;
  } catch {
    // What is shown stays; the next event, or the end of the break, asks again.
  }
}

export const waiting = {
  get calls(): readonly Schemas['ToolCall'][] {
    return calls;
  },
  /** Whether it is known what waits. */
  get known(): boolean {
    return asked;
  },
  /** Follows what happens. What is returned ends that. */
  follow(): () => void {
    void refresh();
    return events.on(
      ['tool_call'],
      (_, call) => {
        const other = calls.filter((one) => one.id !== call.id);
        if (call.status === 'pending') calls = [...other, call as Schemas['ToolCall']];
        else if (other.length < calls.length) calls = other;
      },
      () => void refresh(),
    );
  },
};
