"""What blocks share: transcripts, audit trails, and whatever else has a key."""
