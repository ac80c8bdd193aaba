"""HTTP interface of a service: REST, server-sent events, and a plain list of runs for a browser.

It needs the extra `server`: `pip install 'flowdebate[server]'`.
"""

from flowdebate.server.app import create_app

__all__ = ("create_app",)
