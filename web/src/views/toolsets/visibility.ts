// Who sees a toolset, in words.
import Globe from '@lucide/svelte/icons/globe';
import Lock from '@lucide/svelte/icons/lock';
import Users from '@lucide/svelte/icons/users';

export const SEEN = {
  private: {
    icon: Lock,
    label: 'Private',
    means: 'Whoever made it, and those who manage the organisation.',
  },
  org: {
    icon: Users,
    label: 'Organisation',
    means: 'Everybody in the organisation can use it.',
  },
  public: {
    icon: Globe,
    label: 'Public',
    means: 'It is in the gallery, where everybody who signs in can look at it and take a copy.',
  },
} as const;

export function seen(visibility: string): (typeof SEEN)[keyof typeof SEEN] {
  return SEEN[visibility as keyof typeof SEEN] ?? SEEN.private;
}
