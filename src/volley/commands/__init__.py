"""The commands, a module each: what it is called with and where the work is done.  ``volley.cli`` lists them."""
