"""Documentation pages rendered as HTML for the server's `/help` pages, and links to these pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from flowdebate._util.documentation import ADDRESS, AGENT_CLIS, ONE_MODEL, cite, headings_of, read_page, slug, titles_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

INDEX = "index"


class ManualPage(NamedTuple):
    """A page of the documentation."""

    title: str
    html: Markup


@cache
def manual_page(name: str) -> ManualPage | None:
    """Render the help page called `name`, with links to the other pages; return None if there is no such page."""
    from markdown_it import MarkdownIt

    text = read_page(name)
    if text is None:
        return None
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parsed = _without_pictures(parser.parse(text))
    tokens = [token for token in parsed if token.type != "html_block"]  # drops comments and test blocks
    for token, inline in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and inline is not None:
            token.attrSet("id", slug("".join(part.content for part in inline.children or ())))
        for part in token.children or ():
            _point(part)
    parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    html = parser.renderer.render(tokens, parser.options, {})
    titles = headings_of(text)
    return ManualPage(titles[0] if titles else name, Markup(html))  # noqa: S704 - of the package's own pages


def _without_pictures(tokens: Sequence[Token]) -> Iterator[Token]:
    """Remove paragraphs that contain only a picture, because the package does not include pictures."""
    skipped = 0
    for token, inline in zip(tokens, [*tokens[1:], None], strict=True):
        parts = (inline.children if inline is not None else None) or ()
        if token.type == "paragraph_open" and {part.type for part in parts} - {"link_open", "link_close"} == {"image"}:
            skipped = 3  # the opening, inline and closing tokens
        if skipped:
            skipped -= 1
        else:
            yield token


def _point(token: Token) -> None:
    """Resolve a link to a help page or a website; replace pictures, and links into the repository, with their text."""
    if token.type == "html_inline":
        token.content = ""
    if token.type == "image":
        token.type = "text"
    if token.type != "link_open":
        return
    address = urlsplit(str(token.attrGet("href") or ""))
    if address.scheme in ("http", "https") or (not address.path and address.fragment):
        return
    page = address.path.removesuffix(".md")
    if address.scheme or "/" in page or page == address.path or read_page(page) is None:
        token.attrs = {}
        return
    token.attrSet("href", f"{page}{address.fragment and f'#{address.fragment}'}")


def cited(text: str, folder: str) -> Markup:
    """Escape `text`, and turn references to the documentation into links; `folder` is the base URL of the pages.

    >>> print(cited(f"Model: local everywhere; see {cite(ONE_MODEL)}", "help/"))
    Model: local everywhere; see <a href="help/models#one-model-everywhere">“One model everywhere”</a>
    """
    for place in (ONE_MODEL, AGENT_CLIS):
        reference = cite(place)
        before, cited_text, after = text.partition(reference)
        if cited_text and folder:
            address = reference if ADDRESS else f"{folder}{place}"
            link = Markup('<a href="{}">“{}”</a>').format(address, titles_of(place).section)
            return escape(before) + link + escape(after)
    return escape(text)
