// Who this browser is to the server, and which organisation is looked at: found out before anything is shown.
import { api, type Schemas } from '../api/client';
import { Problem, whenShutOut } from '../api/problem';
import { router } from '../route/router.svelte';

/** The organisation that was looked at last in this browser. */
const LAST = 'kitbag-organization';

let current = $state.raw<Schemas['Session']>();
let over = $state(false);

export const session = {
  async open(): Promise<void> {
    const answered = await api.GET('/v1/session').catch((error: unknown) => {
      throw Problem.of(error);
    });
    // Whoever is not let in is no surprise here.
    if (!answered.data) throw Problem.told(answered.response.status, answered.error);
    current = answered.data;
    over = false;
    if (current.user) settle(current.organizations);
  },
  /** The person who signed in; none for a token. */
  get user(): Schemas['Person'] | undefined {
    return current?.user ?? undefined;
  },
  /** Where that person is a member. */
  get organizations(): Schemas['Membership'][] {
    return current?.organizations ?? [];
  },
  /** The organisation that is looked at, as the person's membership says it. */
  get membership(): Schemas['Membership'] | undefined {
    return current?.organizations.find(({ id }) => id === router.org);
  },
  /** The organisation, for the path of a request. */
  get org(): string {
    return (current?.user ? router.org : current?.org) ?? 'local';
  },
  /** Whether there is such an organisation for whoever looks. */
  get isSomewhere(): boolean {
    if (current?.user) return session.membership !== undefined;
    return router.org === undefined || router.org === current?.org;
  },
  /** Whether others may be here too: people, or an organisation that is not the one of the embedded mode. */
  get isShared(): boolean {
    return Boolean(current?.user) || (current?.org ?? 'local') !== 'local';
  },
  get version(): string {
    return current?.version ?? '';
  },
  /** Whether it may install, change and set. */
  get manages(): boolean {
    return (current?.user ? session.membership?.scopes : current?.scopes)?.includes('manage') ?? false;
  },
  /** Whether it may say yes to a call, and make tokens: a person may, wherever they are a member. */
  get decides(): boolean {
    return session.membership !== undefined || session.manages;
  },
  /** Whether it may make and unmake owners. A token that manages is as good as one. */
  get owns(): boolean {
    return current?.user ? session.membership?.role === 'owner' : session.manages;
  },
  /** Whether whoever was let in is so no more, while the page is open. */
  get over(): boolean {
    return over;
  },
};

/** A person's address names an organisation; if it does not yet, it is the one of the last time, or the first. */
function settle(organizations: Schemas['Membership'][]): void {
  const last = localStorage.getItem(LAST);
  const found =
    organizations.find(({ id }) => id === (router.org ?? last)) ?? (router.org ? undefined : organizations[0]);
  if (!found) return;
  localStorage.setItem(LAST, found.id);
  if (!router.org && !['/join', '/sign-in'].includes(router.path)) router.settle(found.id);
}

whenShutOut(() => {
  // A person signs in again above what they were doing. Who came with a token is told by the server how to come back in.
  if (current?.user) over = true;
  else if (current) location.reload();
});
