"""Lock around imports of libraries with import cycles."""

import threading

IMPORTING = threading.Lock()
"""Held while such a library is imported: of two threads that do it together, one may find half of it."""
