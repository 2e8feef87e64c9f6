//! What a real browser lets a page of the stage do: run, see its data, and nothing else.
