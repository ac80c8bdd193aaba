"""patterns/consensus/phases."""
