"""Sources that arguments can quote: files and folders are read and searched, and quotes are verified word for word."""
