"""Numbers about debates, as pure functions: who criticises whom, similarity, votes, agreement, ratings, positions."""
