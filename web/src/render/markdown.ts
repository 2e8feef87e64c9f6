// Markdown made into markup that is safe to put into the page: whatever the text holds, no script, no style, no form and nothing that is
// loaded from elsewhere comes out of it.
import createPurifier from 'dompurify';
import { Marked } from 'marked';

/** What a relative address in the text means; nothing when it means nothing here. */
export interface Around {
  link: (path: string) => string | undefined;
  image: (path: string) => string | undefined;
}

const NOWHERE: Around = { link: () => undefined, image: () => undefined };
const marked = new Marked({ gfm: true, renderer: { html: ({ text }) => plain(text) } });
const purifier = createPurifier(window);

const TAGS = (
  'a abbr b blockquote br caption code col colgroup dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img input ' +
  'ins kbd li mark ol p picture pre q s samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var'
).split(' ');
// No `id` and no `class`: a text shall not be able to look like a part of the page, nor to be found as one.
const ATTRIBUTES =
  'align alt checked colspan dir disabled height href lang open reversed rowspan scope span src start title type width'.split(
    ' ',
  );

/** A tag in the one spelling that is taken: a name, and attributes with or without a value. */
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-z-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*)\s*\/?>/gi;
const ATTRIBUTE = /([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?/gi;

/**
 * Raw markup of a text: tags that are taken, with what is taken of them; all else as the text that it is. What comes out is made safe
 * like everything. This is so that nothing which the page's policy forbids is even parsed, for the browser would report it.
 */
function plain(text: string): string {
  let made = '';
  let at = 0;
  const words = (part: string) => part.replaceAll('<', '&lt;');
  const source = text.replaceAll(/<!--[^]*?(-->|$)/g, '');
  for (const [all, end, name = '', rest = ''] of source.matchAll(TAG)) {
    const from = source.indexOf(all, at);
    made += words(source.slice(at, from));
    at = from + all.length;
    const tag = name.toLowerCase();
    if (!TAGS.includes(tag)) {
      made += words(all);
      continue;
    }
    const kept = [...rest.matchAll(ATTRIBUTE)].flatMap(([, key = '', ...values]) => {
      const value = values.find((one) => one !== undefined) ?? '';
      return ATTRIBUTES.includes(key.toLowerCase()) ? [` ${key}="${value.replaceAll('"', '&quot;')}"`] : [];
    });
    made += end ? `</${tag}>` : `<${tag}${kept.join('')}>`;
  }
  return made + words(source.slice(at));
}

let around = NOWHERE;

purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'A') link(node);
  if (node.nodeName === 'IMG') image(node);
  // The boxes of a list of things to do are the only fields, and they are not to be changed here.
  if (node.nodeName === 'INPUT') {
    if (node.getAttribute('type') === 'checkbox') {
      node.setAttribute('disabled', '');
      node.setAttribute('aria-label', node.hasAttribute('checked') ? 'Done' : 'Not done');
    } else node.remove();
  }
});

function link(node: Element): void {
  const address = node.getAttribute('href') ?? '';
  const to = /^(https?:\/\/|mailto:)/i.test(address) ? address : around.link(address);
  if (to === undefined || !address) {
    node.removeAttribute('href');
    return;
  }
  node.setAttribute('href', to);
  if (to === address) {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  }
}

function image(node: Element): void {
  const address = node.getAttribute('src') ?? '';
  const from = /^data:image\//i.test(address) ? address : isRelative(address) ? around.image(address) : undefined;
  if (from !== undefined) {
    node.setAttribute('src', from);
    node.setAttribute('loading', 'lazy');
    if (!node.hasAttribute('alt')) node.setAttribute('alt', '');
    return;
  }
  // Whoever serves a picture learns who looks at it: what is not ours is named, and not loaded.
  const words = node.ownerDocument.createElement('span');
  words.textContent = `[image: ${node.getAttribute('alt') || address}]`;
  node.replaceWith(words);
}

/** Neither `scheme:` nor `//host`; a path, perhaps. */
function isRelative(address: string): boolean {
  return address !== '' && !/^[a-z][a-z0-9+.-]*:|^[\\/]{2}/i.test(address);
}

export function toMarkup(text: string, where: Around = NOWHERE): string {
  around = {
    link: (path) => (isRelative(path) && !path.startsWith('#') ? where.link(path) : undefined),
    image: where.image,
  };
  return purifier.sanitize(marked.parse(text, { async: false }), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
}
