// An issuer of OpenID Connect for tests: whoever comes is who the test says. It is at `localhost`, which to a browser is another site than
// the 127.0.0.1 of Kitbag.
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

interface Asked {
  nonce: string;
  challenge: string;
  redirect: string;
}

export class Issuer {
  /** Who comes next. */
  person = { sub: '1', email: 'ada@acme.example', name: 'Ada' };
  private readonly codes = new Map<string, Asked>();

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<Issuer> {
    const server = createServer();
    await new Promise<void>((ready) => server.listen(0, 'localhost', ready));
    const issuer = new Issuer(server, `http://localhost:${(server.address() as AddressInfo).port}`);
    server.on('request', async (request, answer) => {
      const url = new URL(request.url!, issuer.url);
      let body = '';
      for await (const part of request) body += String(part);
      const [type, text] = issuer.answer(url, new URLSearchParams(body));
      answer.setHeader('content-type', type);
      answer.end(text);
    });
    return issuer;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  /** What Kitbag's configuration says of it. */
  get configuration(): string {
    return `[[issuers]]\nid = "company"\nname = "The Company"\nissuer = "${this.url}"\nclient_id = "kitbag"\nclient_secret = "s"\n`;
  }

  private answer({ pathname, searchParams: query }: URL, form: URLSearchParams): [type: string, text: string] {
    const json = (value: unknown): [string, string] => ['application/json', JSON.stringify(value)];
    switch (pathname) {
      case '/.well-known/openid-configuration':
        return json({
          issuer: this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          jwks_uri: `${this.url}/keys`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['ES256'],
          code_challenge_methods_supported: ['S256'],
        });
      case '/keys':
        return json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'ES256' }] });
      case '/authorize': {
        const [code, redirect] = [randomUUID(), query.get('redirect_uri')!];
        this.codes.set(code, { nonce: query.get('nonce')!, challenge: query.get('code_challenge')!, redirect });
        const back = (more: Record<string, string>) =>
          `${redirect}?${new URLSearchParams({ state: query.get('state')!, ...more })}`.replaceAll('&', '&amp;');
        return [
          'text/html',
          `<!doctype html><title>Company</title><a href="${back({ code })}">Yes, it is me</a> <a href="${back({ error: 'access_denied' })}">No</a>`,
        ];
      }
      default: {
        const asked = this.codes.get(form.get('code') ?? '');
        const proof = createHash('sha256').update(form.get('code_verifier') ?? '');
        if (!asked || asked.challenge !== proof.digest('base64url') || asked.redirect !== form.get('redirect_uri'))
          return json({ error: 'invalid_grant' });
        const now = Math.floor(Date.now() / 1000);
        const claims = {
          iss: this.url,
          aud: 'kitbag',
          iat: now,
          exp: now + 300,
          nonce: asked.nonce,
          email_verified: true,
        };
        const signed = `${encoded({ alg: 'ES256', kid: 'one' })}.${encoded({ ...claims, ...this.person })}`;
        const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' });
        const id_token = `${signed}.${signature.toString('base64url')}`;
        return json({ access_token: 'x', token_type: 'Bearer', expires_in: 300, id_token });
      }
    }
  }
}
