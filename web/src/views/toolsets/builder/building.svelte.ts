// A conversation with the builder: what was said, what is chosen, what is not sent yet. One that was left goes on where it was while the page is open.
import { api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { empty } from '../editing/draft';
import { chosenBefore, keepChosen } from './kept';
import type { Component, Drafted } from './sketch';

export type Session = Schemas['BuilderSession'];
export type Turned = Schemas['BuilderTurned'];

const URL = '/v1/orgs/{org}/toolsets/builder/sessions/{builder}';

export class Building {
  /** As the server has it. */
  session = $state.raw<Session>();
  /** Why it is not known. */
  unknown = $state.raw<Problem>();
  /** The keys of what is chosen, here and now. */
  chosen = $state.raw<string[]>([]);
  /** What the model suggested last. */
  suggested = $state.raw<string[]>([]);
  /** The catalogue in the order in which it is shown, which stays while one chooses. */
  components = $state.raw<Component[]>([]);
  /** What must be known of what happened last. */
  warnings = $state.raw<string[]>([]);
  text = $state('');
  name = $state('');
  description = $state('');
  busy = $state<'say' | 'finish'>();
  problem = $state.raw<Problem>();
  /** What failed, so that it can be tried again. */
  failed = $state<'say' | 'finish'>();

  constructor(readonly id: string) {}

  get draft(): Drafted | undefined {
    return (this.session?.finalDraft ?? undefined) as Drafted | undefined;
  }
  get picked(): Component[] {
    return this.chosen.flatMap((key) => this.components.find((one) => one.key === key) ?? []);
  }
  /** Whether something was written that only this page has. */
  get isUnsent(): boolean {
    return !this.draft && [this.text, this.name, this.description].some((text) => text.trim() !== '');
  }

  #params = () => ({ path: { org: session.org, builder: this.id } });

  load = async (): Promise<void> => {
    try {
      const found = await ask(api.GET(URL, { params: this.#params() }));
      const before = chosenBefore(found);
      this.chosen = before?.chosen ?? found.selectedComponentKeys;
      // Of one that is over the server knows them, in whatever browser it came to its end.
      this.warnings = before?.warnings ?? (found.finalDraft ? found.warnings : this.warnings);
      this.#show(found.components);
      this.session = found;
      this.unknown = undefined;
      this.#keep();
    } catch (error) {
      this.unknown = Problem.of(error);
    }
  };

  /** What was answered to the first words, before anything was asked for. */
  begin({ components, assistant, selectedComponentKeys, warnings }: Turned): void {
    this.suggested = assistant.suggestedComponentKeys;
    this.chosen = selectedComponentKeys;
    this.warnings = warnings;
    this.#show(components);
  }

  toggle(key: string): void {
    const without = this.chosen.filter((one) => one !== key);
    this.chosen = without.length < this.chosen.length ? without : [...this.chosen, key];
    this.#keep();
  }

  say = (): Promise<void> =>
    this.#do('say', async () => {
      const message = this.text.trim();
      const body = { message, selectedComponentKeys: this.chosen };
      const turned = await ask(api.POST(`${URL}/chat`, { params: this.#params(), body }));
      this.begin(turned);
      this.#add(turned);
      this.text = '';
      await this.#again();
    });

  finish = (): Promise<void> =>
    this.#do('finish', async () => {
      const body = {
        name: this.name.trim() || undefined,
        description: this.description.trim() || undefined,
        visibility: empty().visibility,
        selectedComponentKeys: this.chosen,
      };
      const made = await ask(api.POST(`${URL}/finalize`, { params: this.#params(), body }));
      this.warnings = made.warnings;
      await this.#again();
    });

  /** What was said is shown as it was kept: without what looked like a secret, and even if the session cannot be asked for now. */
  #add({ userMessage, assistant }: Turned): void {
    if (!this.session) return;
    const createdAt = new Date().toISOString();
    const mine = userMessage === null ? [] : [{ role: 'USER', text: userMessage, createdAt }];
    const turns = [...this.session.turns, ...mine, { role: 'ASSISTANT', text: assistant.message, createdAt }];
    this.session = { ...this.session, turns };
  }

  /** Asks for the session once more; the choice and the warnings are those that have just come. What was done is done if that fails. */
  async #again(): Promise<void> {
    try {
      this.session = await ask(api.GET(URL, { params: this.#params() }));
      this.unknown = undefined;
      this.#keep();
    } catch (error) {
      this.unknown = Problem.of(error);
    }
  }

  async #do(what: 'say' | 'finish', run: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = what;
    this.problem = this.failed = undefined;
    try {
      await run();
    } catch (error) {
      this.problem = Problem.of(error);
      this.failed = what;
      this.#leaveOut(this.problem);
    }
    this.busy = undefined;
  }

  /** What another edition of the catalogue does not have any more cannot be chosen. */
  #leaveOut({ details }: Problem): void {
    const { invalid } = (details ?? {}) as { invalid?: unknown };
    if (Array.isArray(invalid)) this.chosen = this.chosen.filter((key) => !invalid.includes(key));
  }

  /** What the model suggests comes first, then what is chosen, then what fits best. */
  #show(components: Component[]): void {
    const first = [...this.suggested, ...this.chosen];
    const rank = ({ key }: Component) => (first.includes(key) ? first.indexOf(key) : first.length);
    this.components = components.toSorted((a, b) => rank(a) - rank(b));
  }

  #keep(): void {
    if (this.session) keepChosen(this.session, { chosen: this.chosen, warnings: this.warnings });
  }
}

const known = new Map<string, Building>();

/** The conversation with this id, as it was left. */
export function building(id: string): Building {
  const name = `${session.org} ${id}`;
  const found = known.get(name) ?? new Building(id);
  known.set(name, found);
  return found;
}
