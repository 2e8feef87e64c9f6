"""Tools that work with text files of the workspace."""

from collections import Counter

from covalt_toolset import get_context, tool


@tool(name="Word Count", description="Count the words of a text file and show the most frequent ones.")
def word_count(path: str, most: int = 10) -> dict:
    """
    Args:
        path: The file, relative to the workspace.
        most: How many words to show.
    """
    words = (get_context().workspace / path).read_text(encoding="utf-8").lower().split()
    top = Counter(words).most_common(most)
    return {"path": path, "words": len(words), "top": [{"word": word, "count": count} for word, count in top]}


@tool(name="Write Note", description="Write a note as a Markdown file.")
def write_note(title: str, text: str) -> dict:
    """
    Args:
        title: What the note is about. The file is named after it.
        text: The note.
    """
    name = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-") or "note"
    path = f"notes/{name}.md"
    target = get_context().workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    return {"path": path, "size": target.stat().st_size}
