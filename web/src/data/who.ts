// Who did something, as records have it, in words for people: the numbers beside names are for the audit.

/** `names` are those of the members, by their ids. */
export function whoIs(recorded: string, names?: ReadonlyMap<string, string>): string {
  const token = /^token (\S+?)(?: of user (\S+))?$/.exec(recorded);
  if (token) return byToken(token[1]!, token[2] && names?.get(token[2]));
  const [, person, id] = /^(?:the person at )?(.*?)(?: \(user ([^)]*)\))?$/s.exec(recorded)!;
  return (id && names?.get(id)) || person!;
}

/** Ids begin with the time at which they were made, so that they differ only at their end. */
export function byToken(tokenId: string, owner?: string): string {
  return owner ? `${owner}, by a token` : `token …${tokenId.slice(-6)}`;
}

/** What members are called, by their ids. */
export function namesOf(
  members: readonly { id: string; displayName: string | null; email: string }[] | undefined,
): Map<string, string> {
  return new Map((members ?? []).map(({ id, displayName, email }) => [id, displayName ?? email]));
}
