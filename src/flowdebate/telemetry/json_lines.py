"""Log records formatted as JSON Lines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

# Attributes of every record (`taskName` since Python 3.12); all others were passed as `extra`.
_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Log formatter that renders each record as a line of JSON: time, level, logger, message, and extra fields.

    Only the class of an exception is included, because the message may quote a model. `times=False` omits the time.
    """

    def __init__(self, *, times: bool = True) -> None:
        super().__init__()
        self._times = times

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {}
        if self._times:
            fields["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields |= {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        fields |= {name: value for name, value in vars(record).items() if name not in _FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = record.exc_info[0].__name__
        return json.dumps(fields, default=str)
