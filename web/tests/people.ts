// People for tests: organisations with owners, admins and members, each with a browser of their own.
import type { Browser, BrowserContext, Page } from '@playwright/test';
import type { Kitbag } from './kit.ts';

export const PASSWORD = 'correct horse battery';

/** Somebody who signed in, as the API sees them. */
export class Person {
  private constructor(
    private readonly kitbag: Kitbag,
    readonly email: string,
    readonly id: string,
    private readonly cookie: string,
  ) {}

  /** An organisation, and its first owner. */
  static async owner(kitbag: Kitbag, org: string, email: string, name: string): Promise<Person> {
    const id = org.toLowerCase();
    const body = { id, name: org, ownerEmail: email };
    const made = await kitbag.request('POST', '/v1/orgs', body, { authorization: `Bearer ${kitbag.token}` });
    return Person.join(kitbag, made.invitation, name);
  }

  /** Whoever accepts an invitation, and was not known before. */
  static async join(kitbag: Kitbag, invitation: { secret: string; email: string }, name: string): Promise<Person> {
    const body = JSON.stringify({ secret: invitation.secret, password: PASSWORD, displayName: name });
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
    const answer = await fetch(`${kitbag.url}/v1/invitations/accept`, { method: 'POST', headers, body });
    if (!answer.ok) throw new Error(`${invitation.email}: ${answer.status} ${await answer.text()}`);
    const cookie = answer.headers.get('set-cookie')!.split(';')[0]!;
    const { id, email } = (await answer.json()) as { id: string; email: string };
    return new Person(kitbag, email, id, cookie);
  }

  async ask<T = any>(method: string, path: string, body?: unknown): Promise<T> {
    return this.kitbag.request(method, path, body, { cookie: this.cookie, 'sec-fetch-site': 'same-origin' });
  }

  /** The same with a body of bytes. */
  async send<T = any>(method: string, path: string, body: Uint8Array, type: string): Promise<T> {
    const headers = { cookie: this.cookie, 'sec-fetch-site': 'same-origin', 'content-type': type };
    return this.kitbag.request(method, path, body, headers);
  }

  async invite(
    org: string,
    email: string,
    role: string,
  ): Promise<{ id: string; secret: string; email: string; link: string }> {
    return this.ask('POST', `/v1/orgs/${org}/invitations`, { email, role });
  }

  /** Somebody whom this one invited, and who came. */
  async brings(org: string, email: string, role: string, name: string): Promise<Person> {
    return Person.join(this.kitbag, await this.invite(org, email, role), name);
  }

  /** Lets a browser in as this person. */
  async enter(context: BrowserContext): Promise<void> {
    const [name, value] = this.cookie.split('=') as [string, string];
    await context.addCookies([{ name, value, url: this.kitbag.url, httpOnly: true, sameSite: 'Strict' }]);
  }
}

/** A second browser. */
export async function another(browser: Browser): Promise<Page> {
  return (await browser.newContext()).newPage();
}

/** Fills the form that whoever is not known sees. */
export async function signIn(page: Page, email: string, password = PASSWORD): Promise<void> {
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}
