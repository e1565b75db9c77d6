"""What people and programs read: a model of tables, notes and data, and renderers that know no benchmark."""
