"""Router block: a function chooses at run time which block to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowdebate._text import join_choices, short_repr
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import BlockLike, Function, as_block, decision, invocation
from flowdebate.errors import ConfigurationError, OutputError
from flowdebate.runs.context import Context


class Router(Block[Any, Any]):
    """A block that runs one of its routes."""

    def __init__(
        self, *, name: str, choose: Function, routes: Mapping[str, Block[Any, Any]], otherwise: Block[Any, Any] | None
    ) -> None:
        self._where = f"router {name!r}"
        every = [*routes.values(), *([] if otherwise is None else [otherwise])]
        shared, hidden = merge_resources(self._where, every)
        super().__init__(name, resources=shared, hidden=hidden)
        self.routes = routes
        self.otherwise = otherwise
        self._choose = invocation(choose, location=self._where, field="choose")

    async def act(self, value: object, ctx: Context, /) -> object:
        key = await decision(self._choose, value, ctx, ctx.path, read=self._key, returns=str | None, shared=True)
        block = self.otherwise if key is None else self.routes[key]
        assert block is not None  # noqa: S101 - see `_key`
        return await block(value, ctx.below(block))

    def _key(self, choice: object) -> str | None:
        """Return the key of the chosen route; None means `otherwise`."""
        if isinstance(choice, str) and choice in self.routes:
            return choice
        # compare by identity, because an application's value may define equality in any way
        keys = [key for key, route in self.routes.items() if route is choice]
        if keys:
            return keys[0]
        if self.otherwise is not None:
            return None
        problem = f"chose {short_repr(choice)}; available: {join_choices(self.routes)}"
        raise OutputError(self.name, "one of its routes", [("", problem)])

    def outline(self) -> Outline:
        children = [Outline(text=f"{key}:", children=(block.outline(),)) for key, block in self.routes.items()]
        if self.otherwise is not None:
            children.append(Outline(text="otherwise:", children=(self.otherwise.outline(),)))
        return Outline(text=f"{self.name} (router)", kind="router", children=children)


def router(
    *,
    name: str,
    choose: Function,
    routes: Mapping[str, BlockLike] | Sequence[Block[Any, Any]],
    otherwise: BlockLike | None = None,
) -> Router:
    """Create a block that runs one of `routes`, chosen for each input by `choose(input, ctx)`.

    If `routes` is a mapping, `choose` returns one of its keys; if it is a sequence of blocks, `choose` returns one of
    the blocks. If `choose` returns anything else, `otherwise` is run; if there is no `otherwise`, an `OutputError`
    listing the routes is raised.

    >>> sign = router(name="sign", choose=lambda n: "neg" if n < 0 else "pos", routes={"neg": abs, "pos": float})
    >>> sign.run_sync(-3).output
    3
    """
    location = f"router {name!r}"
    if not isinstance(routes, Mapping):
        if not isinstance(routes, Sequence) or not all(isinstance(route, Block) for route in routes):
            raise ConfigurationError(
                location, "routes", routes, "must be a mapping from keys to blocks, or a sequence of blocks"
            )
        routes_by_name = {route.name: route for route in routes}
        if len(routes_by_name) != len(routes):
            raise ConfigurationError(
                location, "routes", [route.name for route in routes], "must be blocks with unique names"
            )
        routes = routes_by_name
    if not routes or not all(isinstance(key, str) for key in routes):
        raise ConfigurationError(location, "routes", routes, "must not be empty, and its keys must be strings")
    return Router(
        name=name,
        choose=choose,
        routes={
            key: as_block(route, name=f"{name}-{key}", location=location, field=f"routes.{key}")
            for key, route in routes.items()
        },
        otherwise=None
        if otherwise is None
        else as_block(otherwise, name=f"{name}-otherwise", location=location, field="otherwise"),
    )
