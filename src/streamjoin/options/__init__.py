"""What the user asked for: every option of a join, checked once. Imports plans and below."""
