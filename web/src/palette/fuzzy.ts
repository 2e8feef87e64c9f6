// How well a text fits what was typed: each word must be in it, as it stands or letter by letter in order.

export interface Fit {
  score: number;
  /** The places of the letters that were found. */
  at: number[];
}

const BOUNDARY = /[\s/:_.~-]/;

/** Nothing if a word is not in it. */
export function fit(query: string, text: string): Fit | undefined {
  const low = text.toLowerCase();
  let score = 0;
  const at: number[] = [];
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const found = whole(word, low) ?? scattered(word, low);
    if (!found) return undefined;
    score += found.score;
    at.push(...found.at);
  }
  // Of two that fit alike the shorter one was meant.
  return { score: score - text.length / 100, at };
}

function starts(text: string, place: number): boolean {
  return place === 0 || BOUNDARY.test(text[place - 1]!);
}

function whole(word: string, text: string): Fit | undefined {
  let place = text.indexOf(word);
  if (place < 0) return undefined;
  // The beginning of a word is better than its middle.
  for (let next = place; next >= 0; next = text.indexOf(word, next + 1)) {
    if (starts(text, next)) {
      place = next;
      break;
    }
  }
  const score = 20 + word.length + (starts(text, place) ? 10 : 0) + (place === 0 ? 5 : 0);
  return { score, at: Array.from(word, (_, step) => place + step) };
}

function scattered(word: string, text: string): Fit | undefined {
  let score = 0;
  const at: number[] = [];
  for (const letter of word) {
    const place = text.indexOf(letter, (at.at(-1) ?? -1) + 1);
    if (place < 0) return undefined;
    if (at.length && place === at.at(-1)! + 1) score += 2;
    if (starts(text, place)) score += 3;
    at.push(place);
  }
  // Letters all over a long text are chance.
  return at.at(-1)! - at[0]! > word.length * 6 ? undefined : { score, at };
}
