"""The tools that every chat has. They are ordinary tools of the SDK and run where all tools run."""
