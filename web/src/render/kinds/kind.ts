// What every renderer gets.
import type { Call, Fields, Plan } from '../value';

export interface Shown {
  call: Call;
  /** The configuration of its plan. */
  config: Fields;
  /** What the tool returned, without what MCP puts around it. */
  result: unknown;
  /** How its plan is asked for anew, of a call that is in no chat. */
  again?: (signal?: AbortSignal) => Promise<Plan | undefined>;
}
