"""Session windows: sessions cut as rows come, kept up to date, and joined."""
