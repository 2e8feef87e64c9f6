// Addresses of the page: read from the browser, changed through its history, so that every view can be linked to and loaded again.

let path = $state(location.pathname);
let query = $state.raw(new URLSearchParams(location.search));

/** Who is asked before this view is left, with the address that is wanted. */
type Guard = (to: string) => boolean;
let guard: Guard | undefined;
/** The address that is shown. The browser's buttons change the browser's before anybody is asked. */
let shown = location.pathname + location.search;

/** Whether somebody holds this view. Another query is the same view. */
function held(to: string): boolean {
  return guard !== undefined && new URL(to, location.origin).pathname !== path && !guard(to);
}

function back(): void {
  const to = location.pathname + location.search;
  if (!held(to)) return read();
  history.pushState({}, '', shown);
}

function read(): void {
  shown = location.pathname + location.search;
  path = location.pathname;
  query = new URLSearchParams(location.search);
}

export const router = {
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
  go(to: string, { replace = false } = {}): void {
    if (to === location.pathname + location.search || held(to)) return;
    history[replace ? 'replaceState' : 'pushState']({}, '', to);
    read();
    if (!replace) window.scrollTo(0, 0);
  },
  /** The same view with another value in its query; nothing takes the name away. */
  set(name: string, value: string | undefined): void {
    const next = new URLSearchParams(location.search);
    if (value) next.set(name, value);
    else next.delete(name);
    const text = next.toString();
    router.go(location.pathname + (text ? `?${text}` : ''), { replace: true });
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
      const link = event.target instanceof Element ? event.target.closest('a') : null;
      if (
        !link ||
        link.target ||
        link.hasAttribute('download') ||
        link.origin !== location.origin ||
        !isView(link.pathname)
      )
        return;
      event.preventDefault();
      router.go(link.pathname + link.search);
    });
  },
};

const VIEWS = ['', 'chats', 'toolsets', 'gallery', 'servers', 'tools', 'files', 'settings'];

/** Whether the server answers that address with this page. */
function isView(pathname: string): boolean {
  return VIEWS.includes(pathname.split('/')[1] ?? '');
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
