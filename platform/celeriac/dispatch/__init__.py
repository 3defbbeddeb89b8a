"""Step two: due jobs go to the broker, as many as there are free slots."""
