"""Engine process for the local model: llama.cpp's server, running until its standard input is closed.

It is a separate process because loading a model holds the global interpreter lock for seconds, and because a crash in
native code should cost one answer, not the application. It runs as a script and imports only the standard library and
xllamacpp. It reads one line of JSON (`Config`) and writes one line (`{"address": …}` or `{"error": …}`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, TypedDict


class Config(TypedDict):
    """Configuration of the engine."""

    model: str
    """Path to the GGUF file."""
    api_key: str
    context: int
    """Maximum number of tokens in the prompt and the answer combined."""
    threads: int
    library: str
    """Folder in which xllamacpp is installed."""


def main() -> None:
    """Serve until the parent process closes standard input or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the application handles Ctrl-C and then closes the engine's input
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    config: Config = json.loads(sys.stdin.buffer.readline())
    try:
        server = _serve(config)
        report = {"address": server.listening_address}
    except BaseException as error:  # noqa: BLE001 - every failure must be reported to the parent process
        report = {"error": f"{type(error).__name__}: {error}"}
    output.write(json.dumps(report) + "\n")
    output.flush()
    if "address" in report:
        sys.stdin.buffer.read()
    os._exit(0)  # skip cleanup: there is nothing to save, and freeing two gigabytes takes time


def _serve(config: Config) -> Any:  # noqa: ANN401 - xllamacpp has no types
    # otherwise, another busy process slows down generation tenfold or more; the variable is read when the library loads
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    sys.path.append(config["library"])
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.n_ctx = config["context"]
    params.n_parallel = 1  # a single slot, because several slots would not share the context or the cached prefix
    params.n_batch = 512  # number of prompt tokens processed between cancellation checks
    params.n_gpu_layers = 0
    params.fit_params = False  # fitting would load the vocabulary again just to choose values already set here
    params.cpuparams.n_threads = config["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["api_key"]]
    params.verbosity = -1
    params.ui = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
