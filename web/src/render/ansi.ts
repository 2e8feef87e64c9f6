// What a terminal would show, as pieces of text with colours. Whatever else the text asks of a terminal is left out.
import Anser from 'anser';

export interface Piece {
  text: string;
  classes: string;
  /** A colour that is none of the sixteen. */
  ink?: string;
  ground?: string;
}

/** Longer texts are cut in the middle. */
const MOST = 400_000;

// Titles, links and other commands (OSC, DCS), then all sequences that are not about colours, then what is left of control characters.
// eslint-disable-next-line no-control-regex
const COMMANDS = /\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)/g;
// eslint-disable-next-line no-control-regex
const MOVES = /\x1b\[[0-?]*[ -/]*[@-ln-~]|\x1b[()*+][A-Za-z0-9]|\x1b[^[\]PX^_]/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

export function pieces(text: string): Piece[] {
  const cut =
    text.length > MOST ? `${text.slice(0, MOST / 2)}\n… a part is left out …\n${text.slice(-MOST / 2)}` : text;
  const plain = cut.replace(COMMANDS, '').replace(MOVES, '').replaceAll('\r\n', '\n').replace(CONTROLS, '');
  // A line that was written over shows what was written last.
  const lines = plain.split('\n').map((line) => line.replace(/^[^]*\r(?=[^\r])/, '').replaceAll('\r', ''));
  return Anser.ansiToJson(lines.join('\n'), { json: true, use_classes: true, remove_empty: true }).map((entry) => {
    const swapped = entry.decorations.includes('reverse');
    const [fg, bg] = swapped ? [entry.bg, entry.fg] : [entry.fg, entry.bg];
    const known = [named(fg, 'fg'), named(bg, 'bg'), ...entry.decorations.map((name) => `ansi-${name}`)];
    return {
      text: entry.content,
      classes: known.filter(Boolean).join(' '),
      ink: colour(fg, entry.fg_truecolor),
      ground: colour(bg, entry.bg_truecolor),
    };
  });
}

function named(name: string | null, part: string): string {
  return name && /^ansi-(bright-)?[a-z]+$/.test(name) && name !== 'ansi-truecolor' ? `${name}-${part}` : '';
}

function colour(name: string | null, exact: string | null): string | undefined {
  if (name === 'ansi-truecolor' && exact && /^[\d, ]+$/.test(exact)) return `rgb(${exact})`;
  const number = /^ansi-palette-(\d+)$/.exec(name ?? '')?.[1];
  if (number === undefined) return undefined;
  const index = Number(number);
  if (index >= 232) return grey(8 + (index - 232) * 10);
  if (index < 16) return undefined;
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const at = index - 16;
  return `rgb(${level(Math.floor(at / 36))} ${level(Math.floor(at / 6) % 6)} ${level(at % 6)})`;
}

function grey(level: number): string {
  return `rgb(${level} ${level} ${level})`;
}
