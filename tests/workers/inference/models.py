"""What is Pydantic's: models as arguments and results, and limits in Annotated."""

from typing import Annotated, List, Optional

from pydantic import BaseModel, Field

from covalt_toolset import tool


class Author(BaseModel):
    name: str = Field(description="Who.")
    age: Optional[int] = None


class Book(BaseModel):
    """A book."""

    title: str
    authors: List[Author] = []


def seen(value): return [type(value).__name__, repr(value)]


@tool
def book(x: Book): return seen(x)

@tool
def books(x: List[Book]): return seen(x)

@tool
def maybe_author(x: Optional[Author] = None): return seen(x)

@tool
def limited(x: Annotated[int, Field(gt=0, le=9, description="How many.")]): return seen(x)

@tool
def limited_texts(x: List[Annotated[str, Field(max_length=3)]]): return seen(x)

@tool
def gives_model() -> Author: return Author(name="Ada")
