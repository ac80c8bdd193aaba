"""Merging of resources: those of inner blocks become those of the block that contains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.errors import ResourceConflict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from flowdebate.blocks.base import Block
    from flowdebate.resources.resource import Resource

__all__ = ("merged_resources",)


def merged_resources(
    where: str,
    blocks: Iterable[Block[Any, Any]],
    *,
    declared: Mapping[str, Resource] | None = None,
    owned: Collection[Resource] = (),
    closed: Collection[Block[Any, Any]] = (),
) -> tuple[dict[str, Resource], dict[str, Resource]]:
    """What `blocks` share with those around them, and what they keep to themselves, by key.

    ResourceConflict where two blocks share different objects under one key, or where one shares an object under a
    key for which another keeps an object to itself: nobody could tell which of the two is meant. Two blocks that
    both keep theirs to themselves are no conflict. Resources in `owned` are kept back from those around: they come
    with what is hidden. What blocks in `closed` keep to themselves concerns nobody else: a debate on a debater's seat
    has a transcript of its own beside that of the debate around it.
    """
    shared: dict[str, Resource] = {}
    hidden: dict[str, Resource] = {}
    owner: dict[str, str] = {}
    for key, resource in (declared or {}).items():
        shared[key], owner[key] = resource, where
    members = list(blocks)
    for block in members:
        for key, resource in block.resources.items():
            if shared.setdefault(key, resource) != resource:
                raise ResourceConflict(where, key, [owner[key], block.name])
            owner.setdefault(key, block.name)
    for resource in owned:
        if shared.setdefault(resource.key, resource) != resource:
            raise ResourceConflict(where, resource.key, [where, owner[resource.key]])
    for block in members:
        for key, resource in block.hidden.items() if block not in closed else ():
            if key in shared and shared[key] not in owned:
                raise ResourceConflict(where, key, [owner[key], block.name])
            hidden[key] = resource
    hidden.update({key: resource for key, resource in shared.items() if resource in owned})
    return {key: resource for key, resource in shared.items() if resource not in owned}, hidden
