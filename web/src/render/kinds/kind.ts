// What every renderer gets.
import type { Call, Fields } from '../value';

export interface Shown {
  call: Call;
  /** The configuration of its plan. */
  config: Fields;
  /** What the tool returned, without what MCP puts around it. */
  result: unknown;
}
