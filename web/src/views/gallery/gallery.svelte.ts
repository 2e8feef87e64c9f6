// What others have published, as the API has it.
import { api, ask, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';

export type Card = Schemas['GalleryCard'];
export type Published = Schemas['GalleryToolset'];

/** So many come at once. */
const PAGE = 24;

const page = (q: string, cursor: string | undefined, signal: AbortSignal) =>
  ask(
    api.GET('/v1/toolset-gallery', {
      params: { query: { ...(q ? { q } : {}), limit: PAGE, cursor } },
      signal,
    }),
  );

export const find = (slug: string, signal: AbortSignal): Promise<Published> =>
  ask(api.GET('/v1/toolset-gallery/{slug}', { params: { path: { slug } }, signal }));

/** A list that grows as somebody reads on. */
export class Shelf {
  cards = $state.raw<Card[]>();
  problem = $state.raw<Problem>();
  loading = $state(false);
  #next = $state<string>();
  #abort = new AbortController();
  #sought = '';

  /** Whether there are more of them. */
  get more(): boolean {
    return this.#next !== undefined;
  }

  /** Begins anew with what is sought. What is there stays until the answer comes. */
  seek = (sought: string): void => {
    this.stop();
    this.#sought = sought;
    this.#next = undefined;
    void this.#load();
  };

  again = (): void => this.seek(this.#sought);

  /** The next of them, unless they are on their way. */
  grow = (): void => {
    if (this.more && !this.loading) void this.#load();
  };

  stop(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.loading = false;
  }

  async #load(): Promise<void> {
    const { signal } = this.#abort;
    const cursor = this.#next;
    this.loading = true;
    try {
      const { items, nextCursor } = await page(this.#sought, cursor, signal);
      if (signal.aborted) return;
      const known = cursor === undefined ? [] : (this.cards ?? []);
      // One that was published again meanwhile may come twice.
      const slugs = new Set(known.map(({ publicSlug }) => publicSlug));
      this.cards = [...known, ...items.filter(({ publicSlug }) => !slugs.has(publicSlug))];
      this.#next = nextCursor ?? undefined;
      this.problem = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.problem = Problem.of(error);
    }
    this.loading = false;
  }
}
