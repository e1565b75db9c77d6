"""The plan and the records: their types, the records file, and which launches belong together."""
