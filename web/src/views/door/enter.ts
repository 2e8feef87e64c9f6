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
  throw new Problem(problem.code, `Too many tries with this address. Try again in ${wait} seconds.`, 429);
}

/** What went wrong at an issuer, in words. */
export function words(code: string): string {
  return WORDS[code] ?? `Signing in there did not work (${code}).`;
}

const WORDS: Record<string, string> = {
  access_denied: 'Signing in there was called off.',
  ACCESS_DENIED: 'Signing in there was called off.',
};
