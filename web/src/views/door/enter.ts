// Getting in, and out again. Whoever is refused here was not let in yet, so that is no reason to ask them to sign in.
import { api, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';

/** Signs in with a password; the browser keeps the cookie. */
export async function signIn(email: string, password: string): Promise<Schemas['Person']> {
  return answer(api.POST('/v1/sign-in', { body: { email, password } }));
}

/** Accepts an invitation. An address that was not known until now gets a password and a name. */
export async function accept(
  secret: string,
  stranger?: { password: string; displayName: string },
): Promise<Schemas['Person']> {
  const displayName = stranger?.displayName.trim();
  const body = {
    secret,
    ...(stranger ? { password: stranger.password } : {}),
    ...(displayName ? { displayName } : {}),
  };
  return answer(api.POST('/v1/invitations/accept', { body }));
}

/** Ends this session; whether that worked or not, whoever wanted it is out of the page. */
export async function signOut(then = '/'): Promise<void> {
  await api.POST('/v1/sign-out').catch(() => {});
  location.assign(then);
}

async function answer<T>(request: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await request.catch((error: unknown) => {
    throw Problem.of(error);
  });
  if (response.ok) return data as T;
  const problem = Problem.told(response.status, error);
  const wait = Number(response.headers.get('retry-after'));
  if (response.status !== 429 || !wait) throw problem;
  throw new Problem(problem.code, `Too many tries. Try again in ${wait} seconds.`, 429);
}

/** Has the browser hold an invitation while somebody signs in elsewhere: it stands in no address. */
export async function hold(secret: string): Promise<void> {
  await answer(api.POST('/v1/invitations/hold', { body: { secret } }));
}

/** Where one signs in at an issuer; it leads back by itself. */
export function issuerUrl(id: string, query: Record<string, string>): string {
  return `/sign-in/${encodeURIComponent(id)}?${new URLSearchParams(query)}`;
}

/** What went wrong at an issuer, in words. */
export function words(code: string): string {
  return WORDS[code] ?? `Signing in there did not work (${code}).`;
}

const WORDS: Record<string, string> = {
  issuer_refused: 'Signing in there was called off, or refused.',
  issuer_unreachable: 'That issuer does not answer just now. Try again later.',
  issuer_broken: 'That issuer is not set up as it should be. Whoever runs this server can look at its log.',
  unknown_issuer: 'This server knows no such issuer.',
  not_believed: 'What the issuer answered could not be believed. Try again.',
  expired: 'That took too long, or began in another browser. Try again.',
  too_many: 'There were too many tries from where you are. Wait a minute.',
  not_invited: 'You are not known here. Somebody of an organisation has to invite you.',
  email_unverified: 'The issuer does not say that your e-mail address is yours.',
  domain_refused: 'People with an address of that domain are not let in.',
  address_known:
    'Somebody with your address is known here. Sign in as before, and link the issuer below “Your account”.',
  invitation_ended: 'The invitation does not work (any more). Ask for a new one.',
  other_address: 'The invitation is for another address than the one the issuer has of you.',
  identity_taken: 'That account is linked with somebody else here.',
  signed_out: 'You were signed out meanwhile. Sign in, and link it again.',
  failed: 'Something went wrong. Try again.',
};
