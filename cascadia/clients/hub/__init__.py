"""Model files: fetched from a hub or a package index, checked by hash, kept in a cache."""
