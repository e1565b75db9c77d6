"""Job scripts: the batch systems as data, and the script that runs a measurement in one."""
