// Patches, as texts before and after. Both ways to write them are read: `---`/`+++`/`@@`, and `*** Update File:`.
export interface Changed {
  path: string;
  what: 'changed' | 'added' | 'deleted' | 'renamed';
  before: string;
  after: string;
}

/** The parts of a patch; none if it is no patch. */
export function readPatch(text: string): Changed[] {
  const files: { path: string; what: Changed['what']; before: string[]; after: string[] }[] = [];
  let old = '';
  let inside = false;
  const begin = (path: string, what: Changed['what']) => {
    files.push({ path, what, before: [], after: [] });
    inside = what !== 'changed';
  };
  for (const line of text.replaceAll('\r\n', '\n').split('\n')) {
    const file = files.at(-1);
    const titled = /^\*\*\* (Update|Add|Delete) File: (.+)$/.exec(line);
    if (titled) {
      begin(titled[2]!.trim(), { Update: 'changed', Add: 'added', Delete: 'deleted' }[titled[1]!] as Changed['what']);
    } else if (file && /^\*\*\* Move to: /.test(line)) {
      file.path = `${file.path} → ${line.slice(13).trim()}`;
      file.what = 'renamed';
    } else if (/^\*\*\* (Begin|End) (Patch|of File)/.test(line) || line.startsWith('diff --git ')) {
      inside = false;
    } else if (/^--- /.test(line) && !inside) {
      old = plain(line.slice(4));
    } else if (/^\+\+\+ /.test(line) && !inside) {
      const path = plain(line.slice(4));
      begin(
        path === '/dev/null' ? old : path,
        path === '/dev/null' ? 'deleted' : old === '/dev/null' ? 'added' : 'changed',
      );
      inside = false;
    } else if (file && line.startsWith('@@')) {
      if (file.before.length + file.after.length > 0) {
        file.before.push('⋯');
        file.after.push('⋯');
      }
      inside = true;
    } else if (file && inside) {
      if (line.startsWith('-')) {
        // Files of a patch that names none before them follow at once.
        if (/^--- \S/.test(line) && text.includes(`${line}\n+++ `)) {
          old = plain(line.slice(4));
          inside = false;
        } else file.before.push(line.slice(1));
      } else if (line.startsWith('+')) file.after.push(line.slice(1));
      else if (line.startsWith(' ') || line === '') {
        file.before.push(line.slice(1));
        file.after.push(line.slice(1));
      }
    }
  }
  return files.map(({ before, after, ...rest }) => ({ ...rest, before: whole(before), after: whole(after) }));
}

function whole(lines: string[]): string {
  return lines.join('\n').replace(/\n+$/, '');
}

function plain(name: string): string {
  const path = name.split('\t')[0]!.trim();
  return path === '/dev/null' ? path : path.replace(/^[ab]\//, '');
}
