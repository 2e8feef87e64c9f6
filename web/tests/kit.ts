// What every test of the page has: a Kitbag of its own on a data folder of its own, and a browser that is let in.
import { test as base, expect, type ConsoleMessage, type Page } from '@playwright/test';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

export const PROGRAM = resolve(process.env.KITBAG_TEST_BINARY ?? '../target/debug/kitbag');
/** The repository. */
export const ROOT = resolve(import.meta.dirname, '../..');

/** An answer that is an error is the page's to show; the stage forbids what not every browser knows; for styles see `tellOfStyles`. */
const HARMLESS =
  /Failed to load resource|Unrecognized Content-Security-Policy directive 'webrtc'|^Applying inline style violates/;

export class Kitbag {
  private constructor(
    private readonly child: ChildProcess,
    readonly data: string,
    readonly url: string,
    readonly token: string,
  ) {}

  static async start(
    flags: string[] = [],
    configuration = '',
    environment: Record<string, string> = {},
  ): Promise<Kitbag> {
    const data = mkdtempSync(join(tmpdir(), 'kitbag-page-'));
    mkdirSync(join(data, 'data'));
    if (configuration) writeFileSync(join(data, 'data', 'kitbag.toml'), configuration);
    // The program refuses variables that it does not know, and those of the tests are none of its own.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('KITBAG_')));
    const page = process.env.KITBAG_TEST_PAGE ? ['--page', resolve(process.env.KITBAG_TEST_PAGE)] : [];
    const args = ['serve', '--data', join(data, 'data'), '--listen', '127.0.0.1:0', '--log', 'warn', ...page, ...flags];
    const child = spawn(PROGRAM, args, {
      env: { ...env, ...environment, HOME: data },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const line = await new Promise<string>((found, failed) => {
      let text = '';
      child.stdout?.on('data', (chunk: Buffer) => {
        text += chunk.toString();
        if (text.includes('\n')) found(text);
      });
      child.on('error', failed);
      child.on('exit', (code) => failed(new Error(`kitbag serve ended with ${code}`)));
    });
    const address = new URL(line.split(' ').at(-1)!.trim());
    return new Kitbag(child, data, address.origin, address.searchParams.get('token')!);
  }

  async stop(): Promise<void> {
    const over = new Promise((done) => this.child.on('exit', done));
    if (this.child.exitCode === null && this.child.kill('SIGTERM')) await over;
    rmSync(this.data, { recursive: true, force: true });
  }

  /** Asks the API of `local`, as the owner; anything but an answer of 2xx is an error. */
  async ask<T = any>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    return this.request(method, `/v1/orgs/local${path}`, body, {
      authorization: `Bearer ${this.token}`,
      ...headers,
    });
  }

  /** The same for any address, as whoever the headers say. */
  async request<T = any>(method: string, path: string, body: unknown, headers: Record<string, string>): Promise<T> {
    const raw = body instanceof Uint8Array;
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        ...(body === undefined || raw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : raw ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text && answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text) as T;
  }

  /** Installs a toolset that is a ZIP. */
  async install(zip: Uint8Array): Promise<any> {
    return this.ask('POST', '/toolsets/import?trust=true', zip, { 'content-type': 'application/zip' });
  }

  /** Opens a view, let in as somebody who opened the printed address. */
  async open(page: Page, path = '/'): Promise<void> {
    await page.goto(`${this.url}/?token=${this.token}`);
    if (path !== '/') await page.goto(this.url + path);
  }
}

/** What a page on the stage tries is its own affair: it is held back, and that is said where it was tried. */
function isOnStage(message: ConsoleMessage): boolean {
  const { url } = message.location();
  return URL.canParse(url) && new URL(url).hostname.endsWith('.localhost');
}

/**
 * Chromium gives what is typed over a selection a style of its own, which the policy takes away again. That is nobody's fault; any other
 * style is, and the event, unlike the line in the console, says where it is.
 */
function tellOfStyles(): void {
  document.addEventListener('securitypolicyviolation', (event) => {
    const place = event.composedPath()[0];
    const typed = place instanceof Element && place.closest('.cm-content') !== null;
    if (event.violatedDirective === 'style-src-attr' && !typed) console.error(`a style in ${String(place)}`);
  });
}

export const test = base.extend<{ kitbag: Kitbag; flags: string[]; forgiven: RegExp | undefined }>({
  /** Complaints that a test is about. */
  forgiven: [undefined, { option: true }],
  /** More flags for `kitbag serve`. */
  flags: [[], { option: true }],
  kitbag: async ({ flags }, use) => {
    const kitbag = await Kitbag.start(flags);
    await use(kitbag);
    await kitbag.stop();
  },
  // Whatever the browser complains about, or the page throws, fails the test that saw it.
  page: async ({ page, forgiven }, use) => {
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(`thrown: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() !== 'error' || HARMLESS.test(message.text()) || isOnStage(message)) return;
      if (!forgiven?.test(message.text())) complaints.push(message.text());
    });
    await page.addInitScript(tellOfStyles);
    await use(page);
    expect(complaints, 'what the browser complained about').toEqual([]);
  },
});

export { expect };

export function read(path: string): Buffer {
  return readFileSync(join(ROOT, path));
}
