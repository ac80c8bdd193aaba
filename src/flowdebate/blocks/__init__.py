"""Block kinds (handler, generator, router, sequencer), tools and outlines."""
