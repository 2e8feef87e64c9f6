// Addresses of the page: read from the browser, changed through its history, so that every view can be linked to and loaded again.

let path = $state(location.pathname);
let query = $state.raw(new URLSearchParams(location.search));

function read(): void {
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
    if (to === location.pathname + location.search) return;
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
  /** Follows the browser's buttons, and takes clicks on links of our own. */
  start(): void {
    window.addEventListener('popstate', read);
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

const VIEWS = ['', 'chats', 'toolsets', 'servers', 'tools', 'files', 'settings'];

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
