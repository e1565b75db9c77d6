"""The launchers, the allocation they find, and the choice between them."""
