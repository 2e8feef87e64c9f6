// An organisation of four people, one of whom is in another too. For what looks at the views of people.
import type { Kitbag } from '../kit.ts';
import { Person } from '../people.ts';

/** Its owner. */
export async function organize(kitbag: Kitbag): Promise<Person> {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada Lovelace');
  const bob = await ada.brings('acme', 'bob@acme.example', 'admin', 'Bob Kahn');
  await ada.brings('acme', 'cem@acme.example', 'member', 'Cem Aydin');
  await ada.brings('acme', 'dot@acme.example', 'member', 'Dorothy Vaughan');
  await bob.invite('acme', 'eve@example.org', 'admin');
  await ada.ask('POST', '/v1/orgs/acme/tokens', { name: 'nightly run', scopes: ['use', 'manage'] });
  await bob.ask('POST', '/v1/orgs/acme/tokens', { name: 'claude code', scopes: ['use'] });
  await ada.ask('PATCH', '/v1/orgs/acme', { name: 'Acme Bakery' });
  const other = await Person.owner(kitbag, 'Guild', 'max@guild.example', 'Max');
  const { secret } = await other.invite('guild', 'ada@acme.example', 'member');
  await ada.ask('POST', '/v1/invitations/accept', { secret });
  return ada;
}
