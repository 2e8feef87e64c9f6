// The language of a text, by the name of its file or by its own name. Each is loaded when it is first needed.
import { LanguageDescription, type LanguageSupport } from '@codemirror/language';
import { languages } from '@codemirror/language-data';

/** Words for languages that are used elsewhere and are not among the names here. */
const OTHER: Record<string, string> = {
  text: '',
  plaintext: '',
  txt: '',
  console: 'shell',
  jsonc: 'json',
  mdx: 'markdown',
};

export async function languageOf(filename?: string, language?: string): Promise<LanguageSupport | undefined> {
  const named = language && (OTHER[language.toLowerCase()] ?? language);
  const found =
    (named ? LanguageDescription.matchLanguageName(languages, named, false) : null) ??
    (filename ? LanguageDescription.matchFilename(languages, filename.split('/').at(-1) ?? filename) : null);
  // Without its colours a text is still a text.
  const support = await found?.load().catch(() => undefined);
  if (!support || found?.name !== 'Markdown') return support;
  // What stands between two lines of dashes at the beginning is YAML, and no heading.
  const { yamlFrontmatter } = await import('@codemirror/lang-yaml');
  return yamlFrontmatter({ content: support });
}

/** Text that is read as prose has no long lines of its own: they are broken where the place ends. */
export function isProse(filename?: string, language?: string): boolean {
  return (
    /\.(md|mdx|markdown|txt|rst|adoc|log)$/i.test(filename ?? '') || /^(markdown|text|plaintext)$/i.test(language ?? '')
  );
}
