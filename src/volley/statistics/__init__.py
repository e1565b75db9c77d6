"""Statistics of samples and curves: pure functions of numbers."""
