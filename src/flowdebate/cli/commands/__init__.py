"""The commands that hold a pattern, each a module: its options, what a file may say, and the pattern made of both."""
