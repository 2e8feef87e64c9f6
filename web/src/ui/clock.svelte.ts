// One clock for all that is shown as "2 minutes ago".
let now = $state(Date.now());
setInterval(() => (now = Date.now()), 30_000);

export const clock = {
  get now(): number {
    return now;
  },
};
