// Sizes and times for people.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(count: number): string {
  let step = 0;
  while (count >= 1024 && step < UNITS.length - 1) {
    count /= 1024;
    step += 1;
  }
  return `${count >= 10 || Number.isInteger(count) ? Math.round(count) : count.toFixed(1)} ${UNITS[step]}`;
}

export function seconds(count: number): string {
  if (count % 60 === 0 && count > 60) return `${count / 60} minutes`;
  return `${count} ${count === 1 ? 'second' : 'seconds'}`;
}

export function number(count: number): string {
  return count.toLocaleString('en');
}
