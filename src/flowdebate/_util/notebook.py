"""Values that notebooks show: IPython asks for HTML and Markdown, which packages above this one make."""

from __future__ import annotations

from pkgutil import resolve_name

_HTML, _MARKDOWN = "flowdebate.web.notebook.page:html_of", "flowdebate.web.notebook.page:markdown_of"
"""They stand above all that they show, and are loaded when a notebook asks."""


class InNotebooks:
    """Base of results, handles, documents and reports of evaluations: a notebook shows them as a page."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The page as HTML; None where there is none, or if it cannot be made: a notebook then shows the repr."""
        html: str | None = resolve_name(_HTML)(self)
        return html

    def _repr_markdown_(self) -> str | None:
        """The page as Markdown; None as for HTML."""
        text: str | None = resolve_name(_MARKDOWN)(self)
        return text
