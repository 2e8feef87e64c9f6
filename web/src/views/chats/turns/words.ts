// How turns are spoken of.
import type { Head, Usage } from './blocks';

const number = new Intl.NumberFormat('en');

export interface Told {
  tone: 'bad' | 'warn' | 'info';
  title: string;
  text: string;
  code?: string;
}

/** What has to be said about how a turn ended; nothing about one that ended as it should. */
export function ending(head: Head): Told | undefined {
  const { state, stop, error } = head;
  if (state === 'failed')
    return { tone: 'bad', title: 'The model could not go on.', text: sentence(error?.message), code: error?.code };
  if (state === 'limited')
    return { tone: 'warn', title: 'It was stopped at a limit.', text: sentence(error?.message), code: error?.code };
  if (state === 'interrupted')
    return {
      tone: 'warn',
      title: 'It was interrupted.',
      text: 'The server ended while the model was at work. What was whole by then is kept.',
    };
  if (state === 'cancelled') return { tone: 'info', title: 'It was stopped.', text: 'What was whole by then is kept.' };
  if (stop === 'length')
    return { tone: 'warn', title: 'The answer is cut off.', text: 'The model had no room for more.' };
  if (stop === 'refused')
    return { tone: 'warn', title: 'It will not answer.', text: 'The model, or its provider, declined to answer this.' };
  return undefined;
}

function sentence(text = ''): string {
  return text && text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}

/** What a turn cost, in words. */
export function cost(head: Head): string[] {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }: Usage = head.usage;
  const read = inputTokens + cacheReadTokens + cacheWriteTokens;
  const words: string[] = [];
  if (read + outputTokens > 0) {
    const cached = cacheReadTokens ? ` (${number.format(cacheReadTokens)} from the cache)` : '';
    words.push(`${number.format(read)} tokens read${cached}, ${number.format(outputTokens)} written`);
  }
  if (head.steps > 1) words.push(`${head.steps} steps`);
  if (head.tools?.searched)
    words.push(
      `${number.format(head.tools.count)} tools behind a search: about ${number.format(head.tools.savedTokens)} tokens saved in each step`,
    );
  return words;
}
