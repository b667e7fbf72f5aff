"""Small sites that say which process answered, for whom, and what it knows."""
