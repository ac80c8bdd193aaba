"""Store conformance suite: each promise of `flowdebate.store.base.Store` as a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing.store.lists import ListTests
from flowdebate.testing.store.ownership import OwningTests
from flowdebate.testing.store.steps import StepTests

if TYPE_CHECKING:
    from flowdebate.testing.store.fixtures import MakeStore

__all__ = ("StoreConformance",)


class StoreConformance(OwningTests, StepTests, ListTests):
    """The tests of a store: derive a class from it, and give it a pytest fixture `make`.

        class TestMyStore(StoreConformance):
            @pytest.fixture
            def make(self, tmp_path):
                return lambda: MyStore(tmp_path / "runs")

    `make()` gives another store object, of the same place within one test and of an empty one in the next. `shared` is
    whether several objects can have one place; without, what takes two of them is skipped. `take_within` is how many
    seconds after its owner's end a run can be taken at the latest; `examples` is how many random sequences are tried.
    Needs `flowdebate[testing]`.
    """

    def test_any_sequence_comes_to_the_same_as_in_memory(self, make: MakeStore) -> None:
        """Whatever is done in whatever order, by two objects if there can be two: all see what MemoryStore has."""
        from flowdebate.testing.store.machine import check_sequences

        check_sequences(make, shared=self.shared, take_within=self.take_within, examples=self.examples)
