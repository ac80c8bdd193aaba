"""`flowdebate share`: public links of a stored run."""

from __future__ import annotations

import asyncio
from typing import Annotated

from flowdebate._util.validation import check_library
from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import open_page
from flowdebate.cli.tokens import kept_token, read_token
from flowdebate.service.plans.options import FilePath, Option, Text, misuse

_DAY = 86_400


@opt.command()
def share(  # noqa: PLR0913 - the options of the command
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    vote: Annotated[bool, Option(help="For blind votes: without names, and with the verdict after the vote.")] = False,
    days: Annotated[int, Option(metavar="DAYS", help="How long the link is good.")] = 30,
    listed: Annotated[bool, Option(flag="--list", help="List the public links of the run; make none.")] = False,
    revoke: Annotated[Text | None, Option(metavar="ID", help="Revoke this public link; make none.")] = None,
    url: Annotated[
        Text, Option(metavar="URL", help="Address at which readers reach your server.")
    ] = "http://127.0.0.1:8377",
    token_file: Annotated[
        FilePath | None, Option(metavar="FILE", help="That of your server. Default: the token in your data directory.")
    ] = None,
    store: opt.StoreName = None,
) -> None:
    """Make a public, read-only link of a stored run, which `flowdebate serve` shows to anybody who has it."""
    check_library("flowdebate share", "fastapi", library="FastAPI", extra="server")
    from flowdebate.server.guard import Link, Links
    from flowdebate.service.runs import chosen_run, opened
    from flowdebate.service.shares import end_shares, make_share, shares_of

    opt.check(0 < days <= 365, "--days", days, "an int from 1 to 365")  # noqa: PLR2004 - a year
    links = Links(kept_token(needed=True) if token_file is None else read_token(token_file))
    with opened(store) as place:
        chosen = asyncio.run(chosen_run(place.store, run, last=last, verb="share"))
        run_id = chosen.header.run_id
        if revoke is not None:
            if not asyncio.run(end_shares(place.store, run_id, revoke)):
                raise misuse("--revoke", revoke, f"The run has no public link {revoke}: --list shows which it has.")
            open_page().line(f"Revoked {revoke}.")
            return
        if listed:
            shares = list(asyncio.run(shares_of(place.store, chosen)).values())
        else:
            shares = [asyncio.run(make_share(place.store, chosen, "vote" if vote else "run", days * _DAY))]
    for each in shares:
        link = Link(run_id=run_id, began=each.begun_at, expires_at=each.expires_at, share=each.id)
        address = f"{url.rstrip('/')}/shared/{links.sign(link)}"
        open_page().line(f"{each.id} {each.shows} {address}" if listed else address)
