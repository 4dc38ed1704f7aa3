"""Pages for browsers: plain files, served as they are. There is no build step."""
