// What a tool can ask of its client, and which capability that takes. The same in both eras; how it travels is not known here.

/** The capability that a client needs to answer a method. */
export const NEEDS = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

export const ask = {
  /** Fields for the user to fill in, all of them required unless it is said otherwise. */
  user: (message, properties, required = Object.keys(properties)) => ({
    method: 'elicitation/create',
    params: { message, requestedSchema: { type: 'object', properties, ...(required.length > 0 && { required }) } },
  }),
  model: (words, maxTokens = 100) => ({
    method: 'sampling/createMessage',
    params: { messages: [{ role: 'user', content: { type: 'text', text: words } }], maxTokens },
  }),
  roots: () => ({ method: 'roots/list', params: {} }),
};

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether an answer has the form that its question wants. */
export function fits(question, answer) {
  if (!isObject(answer)) return false;
  if (question.method === 'roots/list') return Array.isArray(answer.roots);
  if (question.method === 'sampling/createMessage') return typeof answer.role === 'string' && answer.content !== undefined;
  if (answer.action === 'decline' || answer.action === 'cancel') return true;
  const required = question.params.requestedSchema.required ?? [];
  return answer.action === 'accept' && isObject(answer.content) && required.every((name) => name in answer.content);
}
