"""Statistics of samples and curves: pure functions of plain numbers."""
