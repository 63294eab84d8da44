"""What is evaluated in process: `table` lists every operator and function, by kind beside it."""
