"""Reports: a model of tables, notes and data, and renderers that are independent of benchmarks."""
