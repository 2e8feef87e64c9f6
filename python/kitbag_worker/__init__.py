"""The process behind a toolset's calls. Kitbag starts it; nobody imports it."""
