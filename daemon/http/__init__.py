"""The public HTTP API: one file per resource, and beside them what routes share. Audio passes through as bytes."""
