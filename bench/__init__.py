"""What `make bench` prints: the daemon measured beside what it is compared with, on the same audio, in one run.

Part of the repository, not of the package. It may import all of `audiocpp`; nothing imports it.
"""
