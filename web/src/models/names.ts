// How models are named: with their provider in front, as everywhere in Kitbag.
export const PROVIDERS = ['anthropic', 'openai'] as const;
export type Provider = (typeof PROVIDERS)[number];

/** What a provider is called by people. */
export const providerName = (provider: string): string =>
  ({ anthropic: 'Anthropic', openai: 'OpenAI' })[provider] ?? provider;

export interface Llm {
  provider: Provider;
  model: string;
}

/** A name as a turn takes it. */
export const NAME = /^(anthropic|openai)\/[!-~]{1,200}$/;

/** `openai/org/model:7b` taken apart; nothing if no provider stands in front. */
export function llmOf(name: string): Llm | undefined {
  const at = name.indexOf('/');
  const provider = PROVIDERS.find((one) => one === name.slice(0, at).trim().toLowerCase());
  const model = name.slice(at + 1).trim();
  return provider && model ? { provider, model } : undefined;
}
