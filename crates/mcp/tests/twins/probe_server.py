"""A server over pipes that says what it can see and reach. It needs nothing but Python."""

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys

TOOLS = ["read", "write", "connect", "look", "escape", "hide", "hoard"]


def read(paths):
    """What can be read of them."""
    found = {}
    for path in paths:
        try:
            found[path] = sorted(os.listdir(path)) if os.path.isdir(path) else open(path, errors="replace").read(200)
        except OSError:
            found[path] = None
    return found


def write(paths):
    """Which of them can be written."""
    done = []
    for path in paths:
        try:
            with open(path, "w") as file:
                file.write("x")
            done.append(path)
        except OSError:
            pass
    return done


def connect(addresses):
    """Which of them answer."""
    reached = []
    for host, port in addresses:
        try:
            with socket.socket(socket.AF_UNIX) if port is None else socket.socket() as peer:
                peer.settimeout(2)
                peer.connect("\0" + host if port is None else (host, port))
            reached.append([host, port])
        except OSError:
            pass
    return reached


def look():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return {
        "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "uid": os.getuid(),
        "caps": status["CapEff"] + status["CapPrm"] + status["CapInh"] + status["CapAmb"],
        "privileges": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "environment": dict(os.environ),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "root": sorted(os.listdir("/")),
        "folder": os.getcwd(),
        "descriptors": [number for number in range(1000) if os.path.lexists(f"/proc/self/fd/{number}")],
    }


def escape():
    """Tries what breaks sandboxes; each gives an error's name, or what it got."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name, *args):
        return "done" if getattr(libc, name)(*args) >= 0 else errno.errorcode[ctypes.get_errno()]

    def made(make):
        try:
            make()
            return "done"
        except OSError as error:
            return errno.errorcode[error.errno]

    def steal():
        handle = os.pidfd_open(1)
        for number in range(20):
            # pidfd_getfd
            if libc.syscall(438, handle, number, 0) >= 0:
                return
        raise OSError(ctypes.get_errno(), "")

    return {
        "unshare user": call("unshare", 0x10000000),
        "unshare mounts": call("unshare", 0x00020000),
        "mount": call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        "remount": call("mount", None, b"/usr", None, 0x1020, None),
        "unmount": call("umount2", b"/toolset", 2),
        "chroot": call("chroot", b"/tmp"),
        "ptrace": call("ptrace", 16, 1, 0, 0),
        "another's descriptor": made(steal),
        "vsock": made(lambda: socket.socket(40, socket.SOCK_STREAM)),
        "packet": made(lambda: socket.socket(17, socket.SOCK_RAW)),
        "set-id file": made(lambda: (open("plain", "w").close(), os.chmod("plain", 0o4755))),
        "priority": made(lambda: os.nice(-10)),
        "unshare in a child": subprocess.run(["unshare", "--user", "true"], stderr=subprocess.DEVNULL).returncode != 0,
    }


def hide():
    """Leaves a process that does all it can not to be found."""
    script = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(1000)"
    mark = f"hidden-{os.urandom(8).hex()}"
    subprocess.Popen([sys.executable, "-I", "-S", "-c", script, mark], env={}, stdin=subprocess.DEVNULL).wait()
    return mark


def hoard():
    """How many processes it can have at a time."""
    children = []
    try:
        while len(children) < 5000:
            pid = os.fork()
            if pid == 0:
                os.read(0, 0)
                import signal

                signal.pause()
            children.append(pid)
    except OSError:
        pass
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(children)


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        agreed = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        return {**agreed, "serverInfo": {"name": "probe", "version": "1"}}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        result = globals()[params["name"]](**(params.get("arguments") or {}))
        return {"content": [{"type": "text", "text": json.dumps(result)}]}
    raise NotImplementedError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    try:
        reply = {"result": answer(message)}
    except NotImplementedError as error:
        reply = {"error": {"code": -32601, "message": f"unknown method {error}"}}
    except Exception as error:
        reply = {"error": {"code": -32000, "message": repr(error)}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
