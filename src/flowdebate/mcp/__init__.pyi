from .serve import serve_http as serve_http
from .serve import serve_stdio as serve_stdio
from .server import create_server as create_server
from .server import http_app as http_app
