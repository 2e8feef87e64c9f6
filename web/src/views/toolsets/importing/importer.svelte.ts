// An import, from what somebody brings to what is installed. Nothing is installed before it was looked at.
import { api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { events } from '../../../data/events.svelte';
import { session } from '../../../data/session.svelte';
import { line, shownImages, toolsets } from '../data.svelte';
import type { Parcel } from './parcel';
import { Archive } from './zip';

export type Report = Schemas['ImportReport'];
export type Step = 'choose' | 'looking' | 'refused' | 'review' | 'installing' | 'preparing' | 'done';

/** Something about the bundle, with its place. */
export interface Finding {
  code?: string;
  file?: string;
  line?: number;
  column?: number;
  field?: string;
  message: string;
  excerpt?: string;
}

class Importer {
  open = $state(false);
  step = $state<Step>('choose');
  parcel = $state.raw<Parcel>();
  report = $state.raw<Report>();
  problem = $state.raw<Problem>();
  /** What is in it, if the page has it and not the server alone. */
  archive = $state.raw<Archive>();
  trust = $state(false);
  /** Whether what its tools need is built or fetched at once. */
  prepare = $state(true);
  /** Whether values that are written out are forgotten. */
  literals = $state(false);
  /** What was said meanwhile. */
  lines = $state<string[]>([]);
  prepared = $state.raw<Schemas['PreparedTool'][]>();
  /** Why that could not be had. */
  hitch = $state.raw<Problem>();
  #waiting: Promise<Parcel>[] = [];
  #round = 0;

  get waiting(): number {
    return this.#waiting.length;
  }

  choose = (): void => {
    this.#clear();
    this.step = 'choose';
    this.open = true;
  };

  /** Takes what somebody brings; one is looked at after the other. */
  take(parcels: Promise<Parcel>[]): void {
    if (parcels.length === 0) return;
    this.#waiting = parcels;
    void this.next();
  }

  async next(): Promise<void> {
    const parcel = this.#waiting.shift();
    if (!parcel) return this.close();
    this.#clear();
    this.step = 'looking';
    this.open = true;
    try {
      this.parcel = await parcel;
    } catch (error) {
      this.problem = Problem.of(error);
      this.step = 'refused';
      return;
    }
    this.archive = this.parcel.body && (await Archive.open(this.parcel.body));
    await this.look();
  }

  close(): void {
    this.open = false;
    this.#waiting = [];
    this.#clear();
  }

  /** Asks what would change. `name` is what it is called, where nothing in it says so. */
  async look(how: { literals?: boolean; name?: string } = {}): Promise<void> {
    if (!this.parcel) return;
    if (how.name) this.parcel = { ...this.parcel, name: how.name };
    if (how.literals) this.literals = true;
    const round = ++this.#round;
    this.step = 'looking';
    try {
      const report = await send(this.parcel, { dryRun: true, replaceLiterals: this.literals });
      if (round !== this.#round) return;
      this.report = report;
      this.problem = undefined;
      this.step = 'review';
    } catch (error) {
      if (round !== this.#round) return;
      this.problem = Problem.of(error);
      this.step = 'refused';
    }
  }

  async install(): Promise<void> {
    const { parcel, report } = this;
    if (!parcel || !report) return;
    this.step = 'installing';
    this.problem = undefined;
    const round = ++this.#round;
    let installed: Report;
    try {
      installed = await send(parcel, {
        trust: this.trust,
        digest: report.digest,
        ...(this.trust ? { images: JSON.stringify(shownImages(report.containers)) } : {}),
        force: report.change === 'downgrade',
        replaceLiterals: this.literals,
      });
    } catch (error) {
      if (round !== this.#round) return;
      this.problem = Problem.of(error);
      this.step = 'review';
      return;
    }
    if (round !== this.#round) return;
    this.report = installed;
    const python = installed.toolset?.tools.some((tool) => tool.provider === 'python');
    const images = installed.toolset?.containers.some(({ enabled, trusted }) => enabled && trusted);
    if (this.prepare && (python || images)) await this.#build(round);
    if (round === this.#round) this.step = 'done';
  }

  async #build(round: number): Promise<void> {
    const id = this.report!.id;
    this.step = 'preparing';
    const off = events.on(['toolset_progress'], (_, data) => {
      if (data.toolsetId === id && round === this.#round) this.lines.push(line(data));
    });
    try {
      const { tools } = await toolsets.prepare(id);
      if (round === this.#round) this.prepared = tools;
    } catch (error) {
      if (round === this.#round) this.hitch = Problem.of(error);
    } finally {
      off();
    }
  }

  #clear(): void {
    this.#round += 1;
    this.parcel = this.report = this.problem = this.archive = this.prepared = this.hitch = undefined;
    this.trust = this.literals = false;
    this.prepare = true;
    this.lines = [];
  }
}

export const importer = new Importer();

/** What is wrong, thing by thing. */
export function problems(problem: Problem): Finding[] {
  const told = (problem.details as { problems?: Finding[] } | undefined)?.problems;
  return told?.length ? told : [{ message: problem.message }];
}

/** What is to be known though it is not why it was refused. */
export function warnings(problem: Problem): Finding[] {
  return (problem.details as { warnings?: Finding[] } | undefined)?.warnings ?? [];
}

interface How {
  dryRun?: boolean;
  trust?: boolean;
  force?: boolean;
  digest?: string;
  images?: string;
  replaceLiterals?: boolean;
}

function send(parcel: Parcel, how: How): Promise<Report> {
  const path = { org: session.org };
  if (!parcel.body) {
    const body = parcel.toolsetId ? { toolsetId: parcel.toolsetId } : { url: parcel.url };
    return ask(api.POST('/v1/orgs/{org}/toolsets/import', { params: { path, query: how }, body })) as Promise<Report>;
  }
  const query = { ...how, sourceRef: parcel.name, sourceType: parcel.kind === 'folder' ? 'local' : 'zip' };
  const request = api.POST('/v1/orgs/{org}/toolsets/import', {
    params: { path, query },
    // What it is, is found out from what is in it.
    headers: { 'content-type': 'application/octet-stream' },
    body: parcel.body as never,
    bodySerializer: (body: unknown) => body as BodyInit,
  });
  return ask(request) as Promise<Report>;
}
