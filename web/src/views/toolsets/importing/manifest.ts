// What can be read off a manifest without understanding all of YAML.

/** What it says about Python, as it is written. */
export function pythonBlock(manifest: string): string | undefined {
  const lines = manifest.split(/\r?\n/);
  const from = lines.findIndex((line) => /^python\s*:/.test(line));
  if (from < 0) return undefined;
  let to = from + 1;
  // A list may stand as far left as its key.
  while (to < lines.length && /^(\s|#|-|$)/.test(lines[to]!)) to += 1;
  return lines.slice(from, to).join('\n').trimEnd();
}
