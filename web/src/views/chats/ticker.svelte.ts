// A clock that ticks every second, only while somebody looks at it.
import { createSubscriber } from 'svelte/reactivity';

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, 1000);
  return () => clearInterval(timer);
});

export const ticker = {
  get now(): number {
    subscribe();
    return Date.now();
  },
};
