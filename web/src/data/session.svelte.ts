// Who this browser is to the server: found out once, before anything is shown.
import { api, ask, type Schemas } from '../api/client';

let current = $state<Schemas['Session']>();

export const session = {
  async open(): Promise<void> {
    current = await ask(api.GET('/v1/session'));
  },
  /** The organisation, for the path of a request. */
  get org(): string {
    return current?.org ?? 'local';
  },
  get version(): string {
    return current?.version ?? '';
  },
  /** Whether it may install, change and decide. */
  get manages(): boolean {
    return current?.scopes.includes('manage') ?? false;
  },
};
