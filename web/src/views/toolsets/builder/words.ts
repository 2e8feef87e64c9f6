// Why the builder does not go on, in words, and what can be done about it.
import type { Problem } from '../../../api/problem';

/** How long what somebody writes may be. */
export const LONGEST = 20_000;

/** What is offered: to try the same again, to begin anew, to finish with what is there, to give a key, to look at what came of it. */
export type Way = 'again' | 'anew' | 'finish' | 'keys' | 'look';

export interface Trouble {
  title: string;
  text: string;
  /** What the server says, where it adds something. */
  said?: string;
  ways: Way[];
}

/** Whatever went wrong, what was written is still where it was written. */
export function troubleOf(problem: Problem): Trouble {
  const said = problem.message;
  switch (problem.code) {
    case 'LLM_SECRET_REQUIRED':
      return {
        title: 'There is no key for this model',
        text: 'Give Kitbag one and try again, or begin with another model.',
        said,
        ways: ['keys', 'again', 'anew'],
      };
    case 'LLM_UNAVAILABLE':
      return {
        title: 'The model does not answer',
        text: 'What you wrote is still here. Try again, or begin with another model.',
        said,
        ways: ['again', 'anew'],
      };
    case 'TOOLSET_BUILDER_INVALID_MODEL_OUTPUT':
      return {
        title: 'The model’s answer cannot be used',
        text: 'It was asked twice, and nothing of it was kept. What you wrote is still here: try again, say it in other words, or begin with another model.',
        said: (problem.details as { reason?: string } | undefined)?.reason ?? said,
        ways: ['again', 'anew'],
      };
    case 'TOOLSET_BUILDER_SESSION_FULL':
      return {
        title: 'This conversation is as long as it can be',
        text: 'Make the draft of what is chosen, or begin another conversation.',
        ways: ['finish', 'anew'],
      };
    case 'TOOLSET_BUILDER_SESSION_FINALIZED':
      return {
        title: 'This conversation is over',
        text: 'A draft was made of it meanwhile, perhaps in another tab.',
        ways: ['look', 'anew'],
      };
    case 'TOOLSET_BUILDER_SESSION_NOT_FOUND':
      return {
        title: 'There is no such conversation',
        text: 'It is somebody else’s, or nobody went on with it for 30 days.',
        ways: ['anew'],
      };
    default:
      return { title: 'That did not work', text: 'What you wrote is still here.', said, ways: ['again'] };
  }
}
