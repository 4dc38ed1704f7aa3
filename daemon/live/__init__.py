"""Live transcription: one session engine, and the transports that feed it."""
