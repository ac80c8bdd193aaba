"""Sources for arguments to quote: reading and searching files and folders, and verifying quotes word for word."""
