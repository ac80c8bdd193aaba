"""What acts: the block kinds, and the blocks that a debate is made of."""
