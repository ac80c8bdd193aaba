"""Record a debate once, then replay the same answers for free, without network access."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.models import RecordingModel, ReplayModel

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model

QUESTION = "Should meetings be recorded by default?"

pattern = debate(
    name="meetings",
    debaters=[Debater("keeper", "meetings should be recorded"), Debater("guard", "meetings should stay unrecorded")],
    max_rounds=2,
    synthesizer=False,
)


def main(model: Model | str = "local", *, folder: Path | None = None) -> DebateRawOutput:
    if folder is None:
        with TemporaryDirectory() as temporary:
            return main(model, folder=Path(temporary))
    path = folder / "meetings.jsonl"
    live = pattern.run_sync(QUESTION, model=RecordingModel(model, path))
    verdict = live.raw.verdict.verdict if live.raw.verdict else "none"
    print(f"RecordingModel {live.usage.calls} calls in {live.seconds:.1f} s; verdict: {verdict}")

    cassette = ReplayModel(path)
    began = time.perf_counter()
    again = pattern.run_sync(QUESTION, model=cassette, seed=live.seed)
    cassette.assert_complete()  # every recorded call must have been replayed
    print(f"ReplayModel in {time.perf_counter() - began:.3f} s; the same: {again.raw == live.raw}")
    raw: DebateRawOutput = again.raw
    return raw


if __name__ == "__main__":
    main()
