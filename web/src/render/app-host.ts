// The host's side of an app: what Kitbag tells it, and what it may ask of Kitbag. Loaded when the first app is shown.
import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

type Answer = Awaited<ReturnType<NonNullable<AppBridge['oncalltool']>>>;

export interface Host {
  version: string;
  dark: boolean;
  tool: unknown;
  args: Record<string, unknown>;
  result: unknown;
  /** Calls a tool of the app's own server. */
  call: (name: string, args: Record<string, unknown>) => Promise<unknown>;
  /** Whether an address may be opened; asks whoever is there. */
  open: (url: string) => Promise<boolean>;
  resized: (height: number) => void;
}

export interface Connected {
  dark: (dark: boolean) => void;
  close: () => void;
}

/**
 * Speaks with the app in a frame, and has the frame load it once nothing can be missed. Only what comes from that frame is heard, and
 * only what is a message of the protocol.
 */
export async function connect(frame: HTMLIFrameElement, url: string, host: Host): Promise<Connected> {
  const bridge = new AppBridge(
    null,
    { name: 'Kitbag', version: host.version },
    { openLinks: {}, serverTools: {} },
    {
      hostContext: {
        theme: theme(host.dark),
        displayMode: 'inline',
        availableDisplayModes: ['inline'],
        locale: navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        userAgent: `Kitbag/${host.version}`,
        platform: 'web',
        ...(isTool(host.tool) ? { toolInfo: { tool: host.tool } } : {}),
      },
    },
  );
  bridge.oninitialized = () => {
    void bridge.sendToolInput({ arguments: host.args }).then(() => bridge.sendToolResult(host.result as Answer));
  };
  bridge.oncalltool = async ({ name, arguments: args }) => (await host.call(name, args ?? {})) as Answer;
  bridge.onopenlink = async ({ url: to }) => ((await host.open(to)) ? {} : { isError: true });
  bridge.onrequestdisplaymode = async () => ({ mode: 'inline' });
  bridge.onsizechange = ({ height }) => {
    if (typeof height === 'number' && Number.isFinite(height)) host.resized(height);
  };
  const there = frame.contentWindow;
  if (!there) throw new Error('the frame is not there any more');
  await bridge.connect(new PostMessageTransport(there, there));
  frame.src = url;
  return {
    dark: (dark) => void bridge.sendHostContextChange({ theme: theme(dark) }),
    close: () => void bridge.close(),
  };
}

function theme(dark: boolean): 'dark' | 'light' {
  return dark ? 'dark' : 'light';
}

function isTool(value: unknown): value is { name: string; inputSchema: { type: 'object' } } {
  return typeof value === 'object' && value !== null && 'name' in value && 'inputSchema' in value;
}
