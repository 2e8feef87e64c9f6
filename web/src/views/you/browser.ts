// What a browser calls itself, in the two words that tell one from another.
const BROWSERS: [mark: RegExp, name: string][] = [
  [/\bEdg(e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(HeadlessChrome|Chrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
];
const SYSTEMS: [mark: RegExp, name: string][] = [
  [/\b(iPhone|iPad)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
];

export function browserOf(agent: string | null): string {
  const of = (marks: [RegExp, string][]) => marks.find(([mark]) => mark.test(agent ?? ''))?.[1];
  const [browser, system] = [of(BROWSERS), of(SYSTEMS)];
  return [browser ?? agent?.slice(0, 40) ?? 'Unknown', system && `on ${system}`].filter(Boolean).join(' ');
}
