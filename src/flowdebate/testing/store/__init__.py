"""Store conformance suite: each promise of `flowdebate.store.base.Store` as a test."""
