"""Text to speak: markup is taken out, sentences are found, and figures become words.

Shared by every family that speaks. Nothing here knows of phonemes, models or audio.
"""
