"""The suite: all tests of a store in one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing.store.lists import ListTests
from flowdebate.testing.store.runs import OwningTests, StepTests

if TYPE_CHECKING:
    from flowdebate.testing.store.fixtures import MakeStore


class StoreConformance(OwningTests, StepTests, ListTests):
    """The tests of a store: derive a class from it that has a pytest fixture `make`.

        class TestMyStore(StoreConformance):
            @pytest.fixture
            def make(self, tmp_path):
                return lambda: MyStore(tmp_path / "runs")

    `make()` returns another store object: of the same place within one test, of an empty place in the next test.
    `shared`: several objects can use one place; without it, tests that need two objects are skipped. `take_within`:
    seconds after the end of its owner within which a run can be taken. `examples`: the number of random sequences.
    Needs `flowdebate[testing]`.
    """

    def test_any_sequence_comes_to_the_same_as_in_memory(self, make: MakeStore) -> None:
        """After any sequence of operations, of two objects if possible, all objects have the content of MemoryStore."""
        from flowdebate.testing.store.machine import check_sequences

        check_sequences(make, shared=self.shared, take_within=self.take_within, examples=self.examples)
