let shutOut = () => {};

/** What to do when the server no longer knows who asks. */
export function whenShutOut(run: () => void): void {
  shutOut = run;
}

/** Why something did not work, in words that can be shown. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly details?: unknown,
  ) {
    super(message);
    this.name = 'Problem';
  }

  /** Of an answer that is an error of the API, to somebody who was let in. */
  static answered(status: number, body: unknown): Problem {
    if (status === 401) shutOut();
    return Problem.told(status, body);
  }

  /** The same for who is not let in yet. */
  static told(status: number, body: unknown): Problem {
    const { code, message, details } = (typeof body === 'object' && body !== null ? body : {}) as Record<
      string,
      unknown
    >;
    if (typeof code === 'string' && typeof message === 'string') return new Problem(code, message, status, details);
    return new Problem(
      'UNEXPECTED',
      `The server answered ${status}${typeof body === 'string' && body ? `: ${body}` : ''}.`,
      status,
    );
  }

  static of(error: unknown): Problem {
    if (error instanceof Problem) return error;
    if (error instanceof DOMException && error.name === 'AbortError') return new Problem('ABORTED', 'Stopped.');
    if (error instanceof TypeError) return new Problem('UNREACHABLE', 'Kitbag does not answer. Is it still running?');
    return new Problem('UNEXPECTED', error instanceof Error ? error.message : String(error));
  }
}
