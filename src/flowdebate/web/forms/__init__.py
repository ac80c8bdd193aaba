"""Forms: a new run, a person's answer, and the same requests as text."""
