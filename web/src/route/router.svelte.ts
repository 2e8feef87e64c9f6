// Addresses of the page: read from the browser, changed through its history, so that every view can be linked to and loaded again.
//
// A person may be in several organisations, so their addresses begin with the one that is meant: `/o/acme/chats/…`. Views know nothing of
// that: they name `/chats/…`, and read what follows the organisation. Another organisation is another document: nothing of one is left
// when the next is shown.

/** The beginning of an address that names an organisation. */
const ORG = /^\/o\/([^/]+)(?=\/|$)/;

let base = $state('');
let path = $state('/');
let query = $state.raw(new URLSearchParams());

/** Who is asked before this view is left, with the address that is wanted. */
type Guard = (to: string) => boolean;
let guard: Guard | undefined;
/** The address that is shown. The browser's buttons change the browser's before anybody is asked. */
let shown = '';

/** Whether somebody holds this view. Another query is the same view. */
function held(to: string): boolean {
  return guard !== undefined && new URL(to, location.origin).pathname !== base + path && !guard(to);
}

function back(): void {
  const to = location.pathname + location.search;
  if (held(to)) return history.pushState({}, '', shown);
  const before = base;
  read();
  if (base !== before) location.reload();
}

function read(): void {
  shown = location.pathname + location.search;
  base = ORG.exec(location.pathname)?.[0] ?? '';
  path = location.pathname.slice(base.length) || '/';
  query = new URLSearchParams(location.search);
}
read();

export const router = {
  /** The address within the organisation. */
  get path(): string {
    return path;
  },
  /** The parts of the path, decoded. */
  get parts(): string[] {
    return path.split('/').filter(Boolean).map(decode);
  },
  get query(): URLSearchParams {
    return query;
  },
  /** The organisation that the address names. */
  get org(): string | undefined {
    const found = ORG.exec(base)?.[1];
    return found === undefined ? undefined : decode(found);
  },
  go(to: string, { replace = false } = {}): void {
    const next = complete(to);
    if (next === location.pathname + location.search || held(next)) return;
    if ((ORG.exec(next)?.[0] ?? '') !== base && !isDoor(next)) return void location.assign(next);
    history[replace ? 'replaceState' : 'pushState']({}, '', next);
    read();
    if (!replace) window.scrollTo(0, 0);
  },
  /** The same view with another value in its query; nothing takes the name away. */
  set(name: string, value: string | undefined): void {
    router.put({ [name]: value });
  },
  /** The same for several at once. */
  put(values: Record<string, string | undefined>): void {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    const text = next.toString();
    router.go(location.pathname + (text ? `?${text}` : ''), { replace: true });
  },
  /** The same view in an organisation, where the address names none. */
  settle(org: string): void {
    history.replaceState({}, '', home(org).slice(0, -1) + location.pathname + location.search + location.hash);
    read();
  },
  /**
   * Asks before another view is gone to, for as long as the component that calls it is shown. Where `may` says no, the page stays; whoever
   * said so can go there later.
   */
  guard(may: Guard): void {
    $effect(() => {
      guard = may;
      return () => {
        if (guard === may) guard = undefined;
      };
    });
  },
  /** Follows the browser's buttons, and takes clicks on links of our own. */
  start(): void {
    window.addEventListener('popstate', back);
    // A link that is copied, or opened in another tab, names the organisation too.
    for (const kind of ['pointerover', 'focusin']) {
      document.addEventListener(kind, (event) => {
        const link = linkOf(event);
        const href = link?.getAttribute('href');
        if (base && href && isOwn(link!)) link!.setAttribute('href', complete(href));
      });
    }
    document.addEventListener('click', (event) => {
      if (
        event.defaultPrevented ||
        event.button !== 0 ||
        event.metaKey ||
        event.ctrlKey ||
        event.shiftKey ||
        event.altKey
      )
        return;
      const link = linkOf(event);
      if (!link || link.target || link.hasAttribute('download') || !isOwn(link)) return;
      // A place in this very view is the browser's to find.
      if (link.hash && link.pathname === location.pathname) return;
      event.preventDefault();
      router.go(link.pathname + link.search);
    });
  },
};

/** Where an organisation begins. */
export function home(org: string): string {
  return `/o/${encodeURIComponent(org)}/`;
}

/** An address that somebody else named, if it is one of this page. */
export function ours(address: string | null): string | undefined {
  if (!address?.startsWith('/') || !URL.canParse(address, location.origin)) return undefined;
  const { origin, pathname, search } = new URL(address, location.origin);
  return origin === location.origin && isView(pathname) && !isDoor(pathname) ? pathname + search : undefined;
}

const VIEWS = [
  '',
  'chats',
  'toolsets',
  'gallery',
  'servers',
  'tools',
  'runs',
  'executors',
  'files',
  'settings',
  'organization',
  'you',
];

/** Where one gets in. These are of no organisation; what is below them is not this page's. */
const DOOR = /^\/(sign-in|join)(?=[?#]|$)/;

/** Whether the server answers that address with this page. */
function isView(pathname: string): boolean {
  return VIEWS.includes(pathname.replace(ORG, '').split('/')[1] ?? '') || isDoor(pathname);
}

function isDoor(address: string): boolean {
  return DOOR.test(address);
}

function isOwn(link: HTMLAnchorElement): boolean {
  return link.origin === location.origin && isView(link.pathname);
}

function linkOf(event: Event): HTMLAnchorElement | null {
  return event.target instanceof Element ? event.target.closest('a') : null;
}

/** With the organisation in front, if one is meant. */
function complete(address: string): string {
  return !address.startsWith('/') || ORG.test(address) || isDoor(address) ? address : base + address;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address made of parts that may hold anything. */
export function to(...parts: string[]): string {
  return '/' + parts.map(encodeURIComponent).join('/');
}
