import { expect, test } from './kit.ts';
import { another, PASSWORD, Person, signIn } from './people.ts';

test('whoever is not known signs in, and is where they wanted to go', async ({ kitbag, page }) => {
  await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  await page.goto(`${kitbag.url}/settings?tab=tokens`);
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await signIn(page, 'ada@acme.example', 'not the password');
  await expect(page.getByRole('alert')).toHaveText('The address or the password is wrong.');
  await expect(page.getByLabel('Password', { exact: true })).toBeFocused();
  await signIn(page, 'nobody@acme.example');
  await expect(page.getByRole('alert')).toHaveText('The address or the password is wrong.');
  await signIn(page, 'ada@acme.example');
  await expect(page.getByRole('heading', { name: 'Settings' })).toBeVisible();
  await expect(page).toHaveURL(`${kitbag.url}/o/acme/settings?tab=tokens`);
  await expect(page.getByRole('button', { name: 'New token' })).toBeVisible();

  // Who is in goes on at once, but only to this page.
  for (const [wanted, reached] of [
    ['/o/acme/tools', '/o/acme/tools'],
    ['//evil.example/', '/o/acme/'],
    ['/\\evil.example/', '/o/acme/'],
    ['https://evil.example/', '/o/acme/'],
    ['/v1/session', '/o/acme/'],
  ] as const) {
    await page.goto(`${kitbag.url}/sign-in?return_to=${encodeURIComponent(wanted)}`);
    await expect(page).toHaveURL(kitbag.url + reached);
  }

  await page.getByRole('button', { name: 'You: Ada' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
});

test('whoever guesses has to wait, and is told so', async ({ kitbag, page }) => {
  await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  await page.goto(kitbag.url);
  const guess = async () => {
    const body = JSON.stringify({ email: 'ada@acme.example', password: 'a wrong password' });
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${kitbag.url}/v1/sign-in`, { method: 'POST', headers, body })).status;
  };
  // To look at a password takes long, to refuse to look does not.
  const guesses = Array.from({ length: 12 }, guess);
  expect(await Promise.race(guesses)).toBe(429);
  await signIn(page, 'ada@acme.example');
  await expect(page.getByRole('alert')).toHaveText(/^Too many tries\. Try again in \d+ seconds\.$/);
  await Promise.all(guesses);
});

test('what an issuer refused is said in words', async ({ kitbag, page }) => {
  await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  await page.goto(`${kitbag.url}/sign-in?error=issuer_refused&return_to=%2Fo%2Facme%2Ftools`);
  await expect(page.getByRole('alert')).toHaveText('Signing in there was called off, or refused.');
  await signIn(page, 'ada@acme.example');
  await expect(page).toHaveURL(`${kitbag.url}/o/acme/tools`);
});

test('an invitation is made, passed on and accepted in another browser', async ({ kitbag, page, context, browser }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: kitbag.url });
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  await ada.enter(context);
  await page.goto(`${kitbag.url}/organization`);
  await page.getByRole('button', { name: 'Invite' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('E-mail address').fill('bob@acme.example');
  await dialog.getByRole('button', { name: 'Make a link' }).click();
  await dialog.getByRole('button', { name: 'Copy the link' }).click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link).toContain('/join#');
  await dialog.getByRole('button', { name: 'I have it' }).click();
  const invitations = page.getByRole('table', { name: 'Invitations' });
  await expect(invitations).toContainText('bob@acme.example');

  const theirs = await another(browser);
  await theirs.goto(link);
  await expect(theirs.getByRole('heading', { name: 'Join Acme' })).toBeVisible();
  await expect(theirs.getByText('bob@acme.example is invited to Acme as member')).toBeVisible();
  expect(theirs.url(), 'the secret is in no history').toBe(`${kitbag.url}/join`);
  await theirs.getByLabel('Your name').fill('Bob');
  await theirs.getByLabel(/A password/).fill(PASSWORD);
  await theirs.getByRole('button', { name: 'Join Acme' }).click();
  await expect(theirs).toHaveURL(`${kitbag.url}/o/acme/`);
  await expect(theirs.getByRole('button', { name: 'You: Bob' })).toBeVisible();

  // Whoever looks sees them come.
  await expect(page.getByRole('table', { name: 'Members' })).toContainText('bob@acme.example');
  await expect(invitations).toHaveCount(0);
  // It was used up.
  await theirs.goto(link);
  await theirs.reload();
  await expect(theirs.getByRole('alert')).toContainText('does not work (any more)');
});

test('whoever is known signs in to accept, and only they can', async ({ kitbag, page, context }) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const eve = await Person.owner(kitbag, 'Other', 'eve@other.example', 'Eve');
  const { link } = await eve.invite('other', 'ada@acme.example', 'admin');
  await eve.enter(context);
  await page.goto(link);
  await expect(page.getByText('You are signed in as eve@other.example')).toBeVisible();
  await page.getByRole('button', { name: 'Sign out and go on as ada@acme.example' }).click();
  await expect(page.getByLabel('E-mail address')).toHaveValue('ada@acme.example');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('button', { name: 'Join as Ada' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/o/other/`);
  expect((await ada.ask('GET', '/v1/orgs')).items.map(({ id }: { id: string }) => id)).toEqual(['acme', 'other']);
});

test('a person sees one organisation at a time, and goes from one to the other', async ({
  kitbag,
  page,
  context,
  browser,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const eve = await Person.owner(kitbag, 'Other', 'eve@other.example', 'Eve');
  const { secret } = await eve.invite('other', 'ada@acme.example', 'member');
  await ada.ask('POST', '/v1/invitations/accept', { secret });
  const { id } = await ada.ask('POST', '/v1/orgs/acme/chats', { title: 'The plan of Acme' });
  await eve.ask('POST', '/v1/orgs/other/chats', { title: 'A chat of Other' });

  await ada.enter(context);
  await page.goto(`${kitbag.url}/chats`);
  await expect(page).toHaveURL(`${kitbag.url}/o/acme/chats`);
  const chats = page.getByRole('list', { name: 'Chats' });
  await expect(chats).toContainText('The plan of Acme');
  const organisation = page.getByRole('button', { name: /^Organisation:/ });
  await expect(organisation).toHaveAccessibleName('Organisation: Acme');
  // By keys alone.
  await organisation.focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('menuitemradio', { name: /Acme/ })).toBeFocused();
  await expect(page.getByRole('menuitemradio', { name: /Acme/ })).toHaveAttribute('aria-checked', 'true');
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('menuitemradio', { name: /Other/ })).toContainText('member');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(`${kitbag.url}/o/other/`);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Chats' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/o/other/chats`);
  await expect(chats).toContainText('A chat of Other');
  await expect(chats).not.toContainText('The plan of Acme');
  // It is heard what happens here.
  await eve.ask('POST', '/v1/orgs/other/chats', { title: 'Another of Other' });
  await expect(chats).toContainText('Another of Other');
  // A link that is copied names the organisation.
  const link = page.getByRole('link', { name: 'Another of Other' });
  await link.hover();
  await expect(link).toHaveAttribute('href', /^\/o\/other\/chats\//);

  // The last choice is remembered, and an address that names another still opens that.
  await page.goto(`${kitbag.url}/chats`);
  await expect(chats).toContainText('A chat of Other');
  await page.goto(`${kitbag.url}/o/acme/chats/${id}`);
  await expect(page.getByRole('heading', { name: 'The plan of Acme' })).toBeVisible();
  // One that is not theirs looks as if it did not exist.
  const theirs = await another(browser);
  await eve.enter(theirs.context());
  await theirs.goto(`${kitbag.url}/o/acme/chats/${id}`);
  await expect(theirs.getByText('There is no organisation acme')).toBeVisible();
  await theirs.getByRole('link', { name: 'Go to Other' }).click();
  await expect(theirs).toHaveURL(`${kitbag.url}/o/other/`);
});

test('a session that is ended elsewhere asks to sign in above what was being done', async ({
  kitbag,
  page,
  browser,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const { id } = await ada.ask('POST', '/v1/orgs/acme/chats', { title: 'The plan' });
  await page.goto(kitbag.url);
  await signIn(page, 'ada@acme.example');
  await expect(page.getByRole('button', { name: 'You: Ada' })).toBeVisible();
  await page.goto(`${kitbag.url}/o/acme/chats/${id}`);
  await page.getByRole('textbox', { name: 'Message' }).fill('What I meant to say');

  const phone = await another(browser);
  await ada.enter(phone.context());
  await phone.goto(`${kitbag.url}/you`);
  const sessions = phone.getByRole('table', { name: 'Sessions' });
  await expect(sessions.getByRole('row').filter({ hasText: 'this one' })).toHaveCount(1);
  await sessions.getByRole('button', { name: /^End / }).click();

  // It is noticed at once, though nothing was asked.
  const dialog = page.getByRole('dialog', { name: 'Sign in again' });
  await expect(dialog).toBeVisible();
  await dialog.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await dialog.getByRole('button', { name: 'Sign in', exact: true }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole('textbox', { name: 'Message' })).toHaveValue('What I meant to say');
  // And it is heard again what happens.
  await ada.ask('PATCH', `/v1/orgs/acme/chats/${id}`, { title: 'Another plan' });
  await expect(page.getByRole('heading', { name: 'Another plan' })).toBeVisible();
});

test('a new password ends the other sessions', async ({ kitbag, page, context, browser }) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const other = await another(browser);
  await other.goto(kitbag.url);
  await signIn(other, 'ada@acme.example');
  await expect(other.getByRole('button', { name: 'You: Ada' })).toBeVisible();
  await ada.enter(context);
  await page.goto(`${kitbag.url}/you`);
  await page.getByLabel('The one until now').fill('not the password');
  await page.getByLabel(/The one from now on/).fill('another battery horse');
  await page.getByRole('button', { name: 'Change the password' }).click();
  await expect(page.getByRole('alert')).toHaveText('That is not your password until now.');
  await page.getByLabel('The one until now').fill(PASSWORD);
  await page.getByRole('button', { name: 'Change the password' }).click();
  await expect(page.getByRole('status')).toContainText('The password is changed');
  await expect(other.getByRole('dialog', { name: 'Sign in again' })).toBeVisible();
});

test('whoever is in no organisation is told what to wait for', async ({ kitbag, page, context }) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const bob = await ada.brings('acme', 'bob@acme.example', 'member', 'Bob');
  await bob.enter(context);
  await page.goto(`${kitbag.url}/o/acme/chats`);
  await expect(page.getByRole('heading', { name: 'Chats', exact: true })).toBeVisible();
  await ada.ask('DELETE', `/v1/orgs/acme/members/${bob.id}`);
  // It is over at once, where they are.
  await expect(page.getByText('There is no organisation acme')).toBeVisible();
  await page.goto(kitbag.url);
  await expect(page.getByText('You are in no organisation yet')).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Chats' })).toHaveCount(0);
  await page.goto(`${kitbag.url}/you`);
  await expect(page.getByRole('heading', { name: 'Bob' })).toBeVisible();
});

test('where one person has the server, there is no form to sign in', async ({ kitbag, page }) => {
  for (const path of ['/', '/chats', '/sign-in', '/organization', '/o/acme/chats']) {
    await page.goto(kitbag.url + path);
    await expect(page.getByRole('heading', { name: 'This browser has not been let in yet' })).toBeVisible();
  }
  await kitbag.open(page);
  const ways = page.getByRole('navigation', { name: 'Main' });
  await expect(ways.getByRole('link', { name: 'Settings' })).toBeVisible();
  await expect(ways.getByRole('link', { name: 'Organisation' })).toHaveCount(0);
  await expect(page).toHaveURL(`${kitbag.url}/`);
});
