"""The API described by itself: OpenAPI 3.1 from the structs that validate requests, and from one table of routes.

Imported when somebody asks for the description, so that a daemon that nobody asks does not carry it.
"""
