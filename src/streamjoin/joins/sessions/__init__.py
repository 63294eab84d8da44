"""Session windows: sessions are cut as rows arrive, kept up to date, and joined."""
