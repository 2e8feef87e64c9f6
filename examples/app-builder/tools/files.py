from pathlib import Path


def write_file(workspace: Path, path: str, content: str) -> dict:
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    return {"written": path, "size": len(content)}


def read_file(workspace: Path, path: str) -> dict:
    target = workspace / path
    content = target.read_text()
    return {"path": path, "content": content, "size": len(content)}
