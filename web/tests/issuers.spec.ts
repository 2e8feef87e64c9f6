import { Issuer } from './issuer.ts';
import { expect, Kitbag, test as base } from './kit.ts';
import { another, Person } from './people.ts';

const test = base.extend<{ issuer: Issuer }>({
  issuer: async ({}, use) => {
    const issuer = await Issuer.start();
    await use(issuer);
    issuer.stop();
  },
  kitbag: async ({ issuer }, use) => {
    const kitbag = await Kitbag.start([], issuer.configuration);
    await use(kitbag);
    await kitbag.stop();
  },
});

test('an issuer that is configured means that people sign in, and lets nobody in who was not invited', async ({
  kitbag,
  page,
}) => {
  await page.goto(`${kitbag.url}/chats`);
  await page.getByRole('link', { name: 'Sign in with The Company' }).click();
  await page.getByRole('link', { name: 'Yes, it is me' }).click();
  await expect(page.getByRole('alert')).toContainText('Somebody of an organisation has to invite you');
  await page.getByRole('link', { name: 'Sign in with The Company' }).click();
  await page.getByRole('link', { name: 'No' }).click();
  await expect(page.getByRole('alert')).toContainText('called off');
});

test('whoever is invited joins through an issuer, and signs in with it where they wanted to go', async ({
  kitbag,
  issuer,
  page,
  browser,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const { link } = await ada.invite('acme', 'bob@acme.example', 'member');
  issuer.person = { sub: '2', email: 'bob@acme.example', name: 'Bob of the Company' };
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in with The Company' }).click();
  await page.getByRole('link', { name: 'Yes, it is me' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/o/acme/`);
  await expect(page.getByRole('button', { name: 'You: Bob of the Company' })).toBeVisible();

  const phone = await another(browser);
  await phone.goto(`${kitbag.url}/o/acme/tools`);
  await phone.getByRole('link', { name: 'Sign in with The Company' }).click();
  await phone.getByRole('link', { name: 'Yes, it is me' }).click();
  await expect(phone).toHaveURL(`${kitbag.url}/o/acme/tools`);
  await expect(phone.getByRole('heading', { name: 'Tools', exact: true })).toBeVisible();
});

test('an issuer is linked and unlinked, and one that is somebody else’s is refused in words', async ({
  kitbag,
  issuer,
  page,
  context,
  browser,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const bob = await ada.brings('acme', 'bob@acme.example', 'member', 'Bob');
  await ada.enter(context);
  issuer.person = { sub: '7', email: 'ada@home.example', name: 'Ada' };
  await page.goto(`${kitbag.url}/you`);
  await page.getByRole('link', { name: 'Link The Company' }).click();
  await page.getByRole('link', { name: 'Yes, it is me' }).click();
  const linked = page.getByRole('table', { name: 'Linked issuers' });
  await expect(linked).toContainText('ada@home.example');
  await expect(page.getByRole('link', { name: 'Link The Company' })).toHaveCount(0);

  const theirs = await another(browser);
  await bob.enter(theirs.context());
  await theirs.goto(`${kitbag.url}/you`);
  await theirs.getByRole('link', { name: 'Link The Company' }).click();
  await theirs.getByRole('link', { name: 'Yes, it is me' }).click();
  await expect(theirs.getByRole('alert')).toHaveText('That account is linked with somebody else here.');
  await expect(theirs.getByRole('heading', { name: 'Bob' })).toBeVisible();

  await linked.getByRole('button', { name: 'Unlink The Company' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect.poll(async () => (await ada.ask('GET', '/v1/identities')).items.length).toBe(0);
});
