from .server import create_server as create_server
from .server import http_app as http_app
from .server import serve_http as serve_http
from .server import serve_stdio as serve_stdio
