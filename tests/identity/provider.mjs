// A real OpenID provider for tests: oidc-provider, with whoever signs in as whatever name they type. It prints its port.
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const { default: Provider } = await import(pathToFileURL(path.join(process.argv[2], 'oidc-provider/lib/index.js')));

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    { client_id: 'kitbag', client_secret: 'the-clients-secret', redirect_uris: ['http://127.0.0.1:1/sign-in/company/callback'] },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  scopes: ['openid', 'offline_access', 'email', 'profile', 'kitbag:use', 'kitbag:manage'],
  findAccount: (_ctx, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith('unverified'), name: `${id} of the tests` }),
  }),
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: 'kitbag:use kitbag:manage', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  cookies: { keys: ['of the tests'] },
  pkce: { required: () => true },
});

// The server that is tested has another port each time.
const allowed = provider.Client.prototype.redirectUriAllowed;
provider.Client.prototype.redirectUriAllowed = function isOne(uri) {
  return this.clientId === 'kitbag' ? /^http:\/\/127\.0\.0\.1:\d+\/sign-in\/company\/callback$/.test(uri) : allowed.call(this, uri);
};

server.on('request', provider.callback());
console.log(server.address().port);
