"""What can be evaluated in process: `table` lists all of it, the other modules are its kinds."""
